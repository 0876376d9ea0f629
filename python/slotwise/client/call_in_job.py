"""What a job of :class:`slotwise.client.executor.JobExecutor` runs: a call from a file, its outcome into another.

It is sent with the job and needs Python's own library alone, on a host that has no Slotwise.
"""

import pickle
import sys
import traceback


def main(asked: str, outcome: str) -> int:
    """Call what the file ``asked`` holds for each of its arguments; write the results, or the exception."""
    with open(outcome, "wb"):
        pass  # a call that ends this process leaves a file that is empty, not none: its exit status is what tells
    try:
        with open(asked, "rb") as file:
            places, packed = pickle.load(file)
            # Modules of the caller's, where the job sees the caller's files.
            sys.path += [place for place in places if place not in sys.path]
            function, calls = pickle.loads(packed)
        answer: tuple[str, object] = ("results", [function(*args, **kwargs) for args, kwargs in calls])
        text = pickle.dumps(answer)
    except Exception as error:
        trace = traceback.format_exc()
        try:
            text = pickle.dumps(("error", (error, trace)))
            pickle.loads(text)
        except Exception:
            text = pickle.dumps(("text", (f"{type(error).__name__}: {error}", trace)))
    with open(outcome, "wb") as file:
        file.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3]))
