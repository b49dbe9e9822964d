"""What every transport and service of tasks builds on: methods, messages, errors, credentials, pools, timers."""
