"""Lines of the GPU benchmark that follow PyTorch's runs of the fixtures."""
import itertools
import json
import re
import shutil

from lines import SECONDS, Lines
from notes import LeftOut, execute
from parts import CASES, HERE, MODELS, alone, fixtures, offloaded, optimizers, program_name, shared, tensor, trajectory_of
from runner import Case, Deviates


class FixtureLines(Lines):
    def cases(self):
        return json.loads((self.place / CASES).read_text())

    def follow(self, name, case, dtype, flags, more=None, trajectory="trajectory.json"):
        """Follows PyTorch's trajectory. Returns the largest difference of the loss: in f32 within 1e-4, since GPUs sum in another
        order."""
        fixture, out = Case(HERE, MODELS / case, trajectory), self.work / name
        shutil.rmtree(out, ignore_errors=True)
        execute([self.place / name, "--data", fixture.batches, "--steps", fixture.steps, *fixture.hyper_flags(), "--out", out, "--schedule",
                 "constant", *flags, *self.libraries], name, SECONDS, {**self.environment, **(more or {})})
        return fixture.check_metrics(out, 0.02 if dtype == "bf16" else 1e-4)[0]

    def staged(self):
        """One rank, and several over Gloo."""
        for case, ranks, _, flags, dtype in fixtures(self.cases()):
            name = program_name(case, ranks, dtype)
            with self.notes.trial(name) as found:
                found.update(loss=self.follow(name, case, dtype, flags), dtype=dtype)

    def one_rank(self):
        """One rank over NCCL, whose log must have the collectives: those of the first step and of the captured one."""
        for case, dtype in alone(self.cases()):
            name = program_name(case, "alone", dtype)
            log = self.work / f"{name}.log"
            with self.notes.trial(name) as found:
                more = {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "COLL", "NCCL_DEBUG_FILE": str(log)}
                found.update(loss=self.follow(name, case, dtype, [], more), dtype=dtype)
                # As NCCL 2.28 to 2.30 write it: "HOST:PID:THREAD [GPU] NCCL INFO AllGather: opCount 0 sendbuff ..", once for each call.
                kinds = re.findall(r"NCCL INFO (AllGather|ReduceScatter|AllReduce|Send|Recv): opCount", log.read_text() if log.exists() else "")
                found.update(collectives=len(kinds))
                # A reduction of 16-bit floats is an exchange.
                missing = {"AllGather", "ReduceScatter" if dtype == "f32" else "Send"} - set(kinds)
                if missing:
                    raise Deviates(f"{name} made no call of {' and '.join(sorted(missing))} of NCCL")

    def one_gpu(self):
        """Two and four ranks on this GPU over NCCL, which allows it from 2.30 on, with and without CUDA graphs."""
        more = {"CUDA_VISIBLE_DEVICES": "0", "NCCL_MULTI_RANK_GPU_ENABLE": "1"}
        for (case, mesh, dtype), flags in itertools.product(shared(self.cases()), ([], ["--no-graph"])):
            name = program_name(case, mesh, dtype)
            with self.notes.trial(" ".join([name, *flags])) as found:
                try:
                    found.update(loss=self.follow(name, case, dtype, flags, more), dtype=dtype)
                except Deviates as deviation:
                    if "ranks 0 and 1 use one GPU" not in str(deviation):
                        raise
                    raise LeftOut("NCCL 2.30 allows several ranks on one GPU, this one does not") from deviation

    def offload(self):
        """One rank with its state and activations on the host, with and without CUDA graphs."""
        for (case, dtype), flags in itertools.product(offloaded(self.cases()), ([], ["--no-graph"])):
            name = program_name(case, "offload", dtype)
            with self.notes.trial(" ".join([name, *flags])) as found:
                found.update(loss=self.follow(name, case, dtype, flags), dtype=dtype)

    def optimizers(self):
        """Other optimizers than AdamW, one rank and two over Gloo."""
        for optimizer, ranks in optimizers(self.cases()):
            name = program_name(f"gpt2-{optimizer}", ranks, "f32")
            with self.notes.trial(name) as found:
                flags = ["--comm", "staged"] if ranks > 1 else []
                found.update(loss=self.follow(name, "gpt2", "f32", flags, trajectory=trajectory_of(optimizer)), dtype="f32")

    def tensor(self):
        """Tensor and sequence parallelism over Gloo."""
        for case, mesh, dtype in tensor(self.cases()):
            name = program_name(f"{case}-tp", mesh, dtype)
            with self.notes.trial(name) as found:
                found.update(loss=self.follow(name, case, dtype, ["--comm", "staged"]), dtype=dtype)
