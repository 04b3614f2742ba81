"""Rules of the queue that need nothing but the standard library."""
