"""An app whose tasks end every child process that imports them."""
