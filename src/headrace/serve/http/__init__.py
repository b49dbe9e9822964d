"""What browsers and Prometheus ask over HTTP: who may, and a small server.  Loaded only where that is asked for."""
