"""Names of traces of clusters, and what each is: for the command's help and for messages."""

CLUSTER_FORMATS = {
    "philly-csv": "timestamp,duration,num_gpus,...,cluster, as in Sia's and Saturn's artifacts",
    "philly": "Microsoft's cluster_job_log, JSON",
    "sia": "Sia's and Pollux' time,name,application,num_replicas, with a column duration, or --profiles",
    "gavel": "Gavel's lines with tabs",
    "alibaba-2020": "job_id,...,submit_time,num_gpu or plan_gpu,duration",
    "alibaba-2020-tables": "pai_task_table, and pai_job_table beside it",
    "alibaba-2023": "openb_pod_list, and openb_node_list beside it",
    "acme": "job_id,user,node_num,gpu_num,...,type,state,submit_time,start_time,end_time,duration",
    "helios": "job_id,user,vc,gpu_num,...,state,submit_time,start_time,end_time,duration",
    "jobs": "jobs.csv, as this command writes it",
}
