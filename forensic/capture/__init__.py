"""Capture: from files that others write to an unpacked recording, byte for byte.

Nothing here understands a row; the few keys it looks for stand in `forensic.harness`.
"""
