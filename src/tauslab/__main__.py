"""``python -m tauslab``."""

from tauslab.runner.cli.main import main

raise SystemExit(main())
