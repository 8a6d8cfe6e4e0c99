"""``python -m tauslab``."""

from tauslab.cli.main import main

raise SystemExit(main())
