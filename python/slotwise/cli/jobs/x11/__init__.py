"""X displays for programs beside a running job (`ssh-to-job -X`): connections carried by a second visit to the job."""
