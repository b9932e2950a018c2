"""usage: interrupt.py CODE SIGNAL COMMAND...: sends the signal when TMPDIR has a file NAME.partial (the linker
is running). Succeeds if the command then ends with CODE.
"""
import os
import signal
import subprocess
import sys
import time

code, name, command = int(sys.argv[1]), "SIG" + sys.argv[2], sys.argv[3:]
# The command must not inherit ignored signals.
process = subprocess.Popen(command, stdout=subprocess.DEVNULL, preexec_fn=lambda: signal.signal(getattr(signal, name), signal.SIG_DFL))
while process.poll() is None and not any(f.endswith(".partial") for f in os.listdir(os.environ["TMPDIR"])):
    time.sleep(0.01)
process.send_signal(getattr(signal, name))
if process.wait() != code:
    sys.exit(f"ended with {process.returncode}, not {code}")
