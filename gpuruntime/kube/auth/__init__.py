"""Credentials: kubeconfig files, service accounts, exec plugins, client certificates, and their rotation."""
