"""usage: interrupt.py CODE SIGNAL COMMAND...: sends the signal when a file NAME.partial is in TMPDIR (the linker
runs), and succeeds when the command then ends with that code."""
import os
import signal
import subprocess
import sys
import time

code, name, command = int(sys.argv[1]), "SIG" + sys.argv[2], sys.argv[3:]
process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
while process.poll() is None and not any(f.endswith(".partial") for f in os.listdir(os.environ["TMPDIR"])):
    time.sleep(0.01)
process.send_signal(getattr(signal, name))
if process.wait() != code:
    sys.exit(f"ended with {process.returncode}, not {code}")
