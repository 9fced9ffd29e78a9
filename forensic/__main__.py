"""``python -m forensic`` is ``forensic``."""

from forensic.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
