"""The librarian: keeps a database of where the record of each past job is in the HISTORY file and its older parts."""
