"""Security: the rights of each role, values that must stay secret, and untrusted text.

    rights.py     the matrix of role × object × verb, from the catalog and from real attempts
    dynamic.py    finds SQL that a function builds from text
    canary.py     secrets, and the search for them in all places where they must not be
    authority.py  a certificate authority of our own, and servers with TLS

A login that is a member of one role and of no other tries what the role may not do.
"""
