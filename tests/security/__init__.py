"""The closed door: who may do what, what nobody may see, and what a stranger's text must not do.

    rights.py     the matrix of role × object × verb, as the catalog says it and as somebody finds out who tries
    dynamic.py    finds SQL that a function puts together out of text
    canary.py     secrets that are looked for wherever they must not be
    authority.py  a certificate authority of our own, and servers that speak TLS

What a role may not do is tried by a login that is a member of that role and of nothing else.
"""
