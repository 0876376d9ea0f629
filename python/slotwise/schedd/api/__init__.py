"""What users and tools ask of the schedd: actions on jobs, listings, edits of user records.

Only ``convert`` and ``submit_stream`` know messages.
"""
