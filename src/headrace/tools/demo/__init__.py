"""`headrace demo`: a cluster of real processes trains on real data, on this machine.

run      the parent: starts everything, shows progress, writes trace.json and report.html
cluster  its child processes: started, listened to, stopped
collect  what they say, as one record of the run
model    the parts of the graph that all programs share: the queue, the network
loader   a TF 1.x program: CSV files -> readers -> the shared queue
trainer  a TF 1.x program: the shared queue -> a network on the parameter server
evaluate the test set through the trained variables
data     where the digits are
"""
