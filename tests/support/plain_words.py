"""Words that a reader of pages, help and messages would have to guess."""

from __future__ import annotations

import re

# "law" is right of a rate, "course" of a time course, and both of names in code.
WORDS = re.compile(
    r"\b(?<!time )courses?\b"
    r"|\b(?<!rate )(?<!kinetic )(?<!SBML )(?<!net-)laws?\b"
    r"|\bmessengers?\b|\btell(?:s|ing)?\b|\btold\b|\bfound\b|\brooms?\b|\bthose\b|\bhere\b"
    r"|\bwhat there is\b|\bwhat is called\b|\bby itself\b|\b(?:goes?|gone|went) on\b|\bhonour\w*\b"
    r"|\bhalf to even\b|\bdependents\b|\bnever comes?\b"
    r"|\bat rest\b|\bby chance\b|\bgives? up\b|\bgiven up\b|\bnot ours\b|\bis gone\b|\bare gone\b",
    re.IGNORECASE,
)
CODE = re.compile(r"(?ms)^```.*?^```|^    \S.*?$|`[^`\n]*`|\]\([^)\s]*\)|https?://\S+")


def used(text: str) -> list[str]:
    """Words of the list in a text, outside of code and addresses."""
    return WORDS.findall(CODE.sub("", text))
