"""Telling the harnesses about our hook, and taking that back: their own configuration, edited byte by byte."""
