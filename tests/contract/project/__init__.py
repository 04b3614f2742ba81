"""A small project as users have them, run by `test_project` in processes of its own."""
