"""DeepSparse in a process of its own, because it needs older versions of other packages."""

import pathlib
import subprocess
import sys


class DeepSparse:
    def __init__(self, python, threads):
        worker = pathlib.Path(__file__).with_name("deepsparse_worker.py")
        self.threads = threads
        self.process = subprocess.Popen(
            [python, str(worker)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )

    def time(self, path, batch, ids_below=0):
        """Median microseconds of an ONNX file. Its input is ids below a number, or random floats."""
        print(path, batch, self.threads, ids_below, file=self.process.stdin, flush=True)
        for line in self.process.stdout:
            # The library prints a banner of its own.
            if line.startswith("us "):
                return float(line.split()[1])
        sys.exit("DeepSparse's process ended: run its worker by hand to see why")

    def close(self):
        self.process.stdin.close()
        self.process.wait()
