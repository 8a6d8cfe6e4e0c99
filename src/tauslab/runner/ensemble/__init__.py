"""Running an ensemble: the task, lanes of launches, the driver, growth and convergence.

The way of a run: `entry.run_network`, or `growth` where a file grows; `run.opened` reads what a
file says (`from_file`), prepares the task, lets pilots choose (`choices`; they launch kernels too)
and builds the engine; `run.run_portion` announces long runs; `run.run_task` lays out the file and
opens its writer; `driver.EnsembleRun.run` takes blocks and starts launches on `lanes`, each by
`lane.start`.
"""
