"""A small trace of each format, written by hand from the formats' descriptions, and what stands beside it."""

import csv
import json
from pathlib import Path
from typing import Any

from pdes.convert.cluster.machines import Given
from pdes.convert.cluster.trace import convert

PHILLY_CSV = """timestamp,duration,num_gpus,gpu_time,cluster
2017-10-09 07:00:00,66.0,1,66.0,vc1
2017-10-09 07:00:30,2951.5,8,23612.0,vc2
2017-10-09 07:01:00,10.0,2,20.0,vc1
"""
SIA = """name,time,application,num_replicas,batch_size,duration
cifar10-0,107,cifar10,6,2048,600
bert-1,487.661836,bert,12,384,7200.25
"""
GAVEL = "".join(
    f"{kind}\tpython3 main.py --data %s/x\tfolder\t-n\t1\t{steps}\t{gpus}\t{weight}\t-1.000000\t{arrival}\n"
    for kind, steps, gpus, weight, arrival in (
        ("ResNet-18 (batch size 64)", 5000, 1, 1, 0), ("LM (batch size 5)", 77, 4, 5, 12.5),
    )
)  # fmt: skip
GAVEL_OLD = "A3C\tpython3 main.py\t--max-steps\t1\t300\t55.000000\t1\nLM\tpython3 x.py\t--steps\t0\t6791\t179.0\t8\n"
GAVEL_OLDEST = "A3C\tpython3 main.py\t--max-steps\t300\t55\t1\nLM\tpython3 x.py\t--steps\t6791\t179\t8\n"
GAVEL_MODE = GAVEL.replace("\t1\t1\t-1.0", "\t1\tstatic\t1\t-1.0").replace("\t4\t5\t-1.0", "\t4\tgns\t5\t-1.0")
ALIBABA_2020 = """job_id,num_inst,submit_time,num_cpu,num_gpu,gpu_type,duration,user
7,1,1000,6.0,0.5,MISC,900,u1
8,4,1010.0,24.0,4.0,V100,1800.0,u2
9,1,1020,6.0,0.0,CPU,30,u1
"""
ALIBABA_PERCENT = """job_id,num_inst,plan_gpu,duration,submit_time,user
7,3,50,900,1000,u1
8,2,400,1800,1010,u2
"""
TASKS = """j1,worker,2.0,Terminated,110.0,200.0,600.0,29.3,50.0,T4
j1,ps,1.0,Terminated,105.0,210.0,600.0,29.3,,
j2,worker,4.0,Failed,130.0,190.0,600.0,29.3,100.0,V100
j3,worker,1.0,Terminated,140.0,150.0,600.0,29.3,,CPU
"""
PAI_JOBS = """j1,i1,u1,Terminated,100.0,210.0
j2,i2,u2,Failed,120.0,190.0
j3,i3,u1,Terminated,135.0,150.0
"""
TAGS = "inst_id,user,gpu_type_spec,group,workload\ni2,u2,,g,nmt\n"
SPECS = "machine,gpu_type,cap_cpu,cap_mem,cap_gpu\nm1,T4,96,512,2\nm2,T4,96,512,2\nm3,V100,96,512,8\nm4,CPU,96,512,0\n"
PODS = """name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time
p0,12000,16384,1,1000,,LS,Running,0,5000,10
p1,6000,12288,1,460,T4,BE,Succeeded,20,320,20
p2,6000,12288,8,1000,V100M16|V100M32,LS,Failed,30,130,40
p3,6000,12288,0,0,,LS,Running,40,50,40
p4,6000,12288,1,1000,,LS,Pending,50,60,
"""
NODES = """sn,cpu_milli,memory_mib,gpu,model
n0,64000,262144,2,T4
n1,64000,262144,8,V100M32
n2,64000,262144,8,V100M32
n3,64000,262144,4,V100M16
n4,64000,262144,0,
"""
ACME_HEADER = "job_id,user,node_num,gpu_num,cpu_num,type,state,submit_time,start_time,end_time,duration,queue\n"
ACME = (
    ACME_HEADER
    + """\
51,u1,1,8,128,Other,FAILED,2023-03-01 00:18:22+08:00,2023-03-01 00:18:54+08:00,2023-03-01 00:20:51+08:00,117,32
52,u2,8,64,99,Pretrain,COMPLETED,2023-03-01 00:23:58+08:00,2023-03-01 00:24:11+08:00,2023-03-01 01:09:04+08:00,2693,13
53,u2,1,0,4,Other,COMPLETED,2023-03-01 00:24:00+08:00,2023-03-01 00:24:11+08:00,2023-03-01 01:09:04+08:00,2693,11
"""
)
HELIOS = """job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue
11,u1,vcA,1,1,1,COMPLETED,2020-06-09 18:41:01,2020-06-09 18:41:01,2020-06-10 04:55:09,36848,0
12,u2,vcB,4,16,1,CANCELLED,2020-06-09 18:41:27,2020-06-09 18:41:27,2020-06-09 18:45:36,249,0
13,u2,vcB,0,16,1,FAILED,2020-06-09 18:41:28,2020-06-09 18:41:28,2020-06-09 18:45:36,248,0
"""
HELIOS_GPUS = "date,vcA,vcB,total\n2020-06-09,8,8,16\n2020-06-10,16,9,25\n"
MACHINES = "machineId, number of GPUs, single GPU mem\nm1,8, 24GB\nm2,8, 24GB\nm3,2, 12GB\n"
JOBS = """job,submit_s,duration_s,gpus,tenant,priority,kind,gpu_type,steps,status
a,0,60.5,1,vc1,3,"bert, large",V100,,completed
b,1.000001,,2,,-1,lm,,5000,
"""


def attempt(start: object, end: object, *gpus: int) -> dict[str, Any]:
    """One attempt of a job of Philly, on so many GPUs of each machine."""
    detail = [{"ip": f"m{k}", "gpus": [f"gpu{i}" for i in range(n)]} for k, n in enumerate(gpus)]
    return {"start_time": start, "end_time": end, "detail": detail}


def philly_job(name: object, submitted: object, *attempts: object, status: str = "Pass") -> dict[str, Any]:
    """One job of Philly's log."""
    return {
        "status": status, "vc": "vc1", "jobid": name, "attempts": list(attempts), "submitted_time": submitted,
        "user": "u1",
    }  # fmt: skip


PHILLY_JOBS = [
    philly_job(
        "application_1_1", "2017-10-07 01:11:39",
        attempt("2017-10-07 01:12:09", "2017-10-07 01:13:23", 8),
        attempt("2017-10-07 01:13:30", "2017-10-09 06:53:12", 8),
    ),
    philly_job("application_1_2", "2017-10-07 02:00:00", attempt("2017-10-07 02:00:10", "2017-10-07 02:01:10", 2, 2)),
]  # fmt: skip
PHILLY = json.dumps(PHILLY_JOBS, indent=4)
SAMPLES: dict[str, dict[str, str]] = {  # format to its files, the trace first
    "philly-csv": {"jobs_of_philly.csv": PHILLY_CSV},
    "philly": {"cluster_job_log": PHILLY, "cluster_machine_list": MACHINES},
    "sia": {"workload-1.csv": SIA},
    "gavel": {"small.trace": GAVEL},
    "alibaba-2020": {"pai.csv": ALIBABA_2020},
    "alibaba-2020-tables": {"task.csv": TASKS, "job.csv": PAI_JOBS, "tag.csv": TAGS, "spec.csv": SPECS},
    "alibaba-2023": {"pods.csv": PODS, "nodes.csv": NODES},
    "acme": {"trace_seren.csv": ACME},
    "helios": {"cluster_log.csv": HELIOS, "cluster_gpu_number.csv": HELIOS_GPUS},
    "jobs": {"of_ours.csv": JOBS},
}


def put(folder: Path, files: dict[str, str]) -> Path:
    """Write the files; the first one."""
    folder.mkdir(exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8", newline="")
    return folder / next(iter(files))


def rows(path: Path) -> list[dict[str, str]]:
    """Of a CSV."""
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


class Converted:
    """What a conversion has written: jobs and findings as rows; pools as (type, servers, GPUs of one)."""

    def __init__(self, folder: Path, summary: list[str]) -> None:
        import tomllib

        self.folder, self.summary = folder, summary
        self.jobs, self.audit = rows(folder / "jobs.csv"), rows(folder / "audit.csv")
        self.cluster = tomllib.loads((folder / "case.toml").read_text(encoding="utf-8"))["cluster"]
        self.pools = [(one["gpu"], one["servers"], one["gpus_per_server"]) for one in self.cluster["pool"]]

    def found(self, line: int | None = None) -> list[tuple[str, str, str, str]]:
        """(line, column, found, done) of the findings, or of those of a line."""
        every = [(row["line"], row["column"], row["found"], row["done"]) for row in self.audit]
        return [one for one in every if line is None or one[0] == str(line)]


def converted(
    tmp_path: Path, files: dict[str, str] | str, given: Given | None = None, form: str | None = None
) -> Converted:
    """Of a trace's files, or of the text of one."""
    source = put(tmp_path / "in", {"trace": files} if isinstance(files, str) else files)
    out = tmp_path / "out"
    out.mkdir(exist_ok=True)
    return Converted(out, convert(source, out / "case.toml", form, given))
