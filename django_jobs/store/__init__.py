"""
Every SQL statement of the queue, each beside the function that runs it.

A statement is a constant, with parameters by name, so that it runs on a psycopg cursor and on Django's.
Nothing here knows Django; `core` is all it imports of this package.
"""
