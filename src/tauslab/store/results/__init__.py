"""Reading results: `Result`, its tables, exports and digests.

Every file is checked by `tauslab.store.checking` first.
"""
