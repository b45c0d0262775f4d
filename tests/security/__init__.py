"""Security: the rights of each role, values that must stay secret, and untrusted text.

    rights.py     the matrix of role × object × verb, from the catalog and from real attempts
    dynamic.py    finds SQL that a function builds from text
    canary.py     makes secrets and searches for them in all places where they must not be
    certificates.py  a certificate authority of our own, and servers with TLS
    traps.py      objects in `public` that raise an error if our SQL calls them

The tests of rights log in as a member of exactly one role and try what the role may not do.
"""
