"""The job from the command line to the result file."""

if __name__ != "tauslab.runner":  # through the link at the root: it would be a second copy
    raise ImportError("runner is a part of tauslab: write `import tauslab.runner`")
