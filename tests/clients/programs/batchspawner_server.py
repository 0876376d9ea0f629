"""batchspawner's CondorSpawner submits a server as a job, follows it by condor_q, and cancels it."""

import asyncio
import os
import pwd
from pathlib import Path

from batchspawner import CondorSpawner
from jupyterhub import orm
from jupyterhub.objects import Hub, Server
from jupyterhub.user import User
from waiting import LIMIT_S


class Spawner(CondorSpawner):
    """Runs commands as the account that it has itself, without sudo."""

    def cmd_formatted_for_batch(self) -> str:
        """In the place of a notebook server."""
        return "sleep 1000"


async def main() -> None:
    database = orm.new_session_factory(url="sqlite:///:memory:")()
    account = orm.User(name=pwd.getpwuid(os.getuid()).pw_name)
    database.add(account)
    database.commit()
    spawner = Spawner(hub=Hub(), user=User(account, {"db": database}), server=Server(), _deprecated_db_session=database)
    spawner.exec_prefix, spawner.env_keep = "", list(os.environ)
    spawner.req_memory, spawner.req_nprocs, spawner.req_homedir = "50", "1", str(Path.cwd())
    spawner.req_options = "request_disk = 10M"
    await spawner.submit_batch_script()
    assert int(spawner.job_id) > 0
    async with asyncio.timeout(LIMIT_S):
        while (await spawner.query_job_status()).name != "RUNNING":
            await asyncio.sleep(0.1)
    assert spawner.state_gethost()
    await spawner.cancel_batch_job()
    async with asyncio.timeout(LIMIT_S):
        while (await spawner.query_job_status()).name != "NOTFOUND":
            await asyncio.sleep(0.1)


if __name__ == "__main__":
    os.umask(0)
    asyncio.run(main())
    print("done")
