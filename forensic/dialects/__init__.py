"""Dialects: how each harness's rows, payloads and side files are read, version by version."""
