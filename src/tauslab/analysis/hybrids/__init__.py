"""Hybrids: parts that step together, with links that exchange quantities between them.

`hybrid` is what users build; `links` reads expressions over quantities of parts; `parts` moves one
part; `clock` says who steps when; `ledger` keeps shared pools and bills; `driver` runs all of it;
`pilot` and `outlook` state the error of the interval; `result` is what comes out.
"""
