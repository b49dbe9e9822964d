"""`headrace k8s`: manifests of a cluster for Kubernetes."""
