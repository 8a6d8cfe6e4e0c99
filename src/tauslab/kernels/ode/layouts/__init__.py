"""Where the equations of a system go on a device with warps: what terms cost, and who has which."""
