"""``python -m tauslab``."""

from tauslab.runner.cli import main

raise SystemExit(main())
