"""What has become of jobs and of the pool's time: reports over history and accounting. Needs the extra ``analysis``."""
