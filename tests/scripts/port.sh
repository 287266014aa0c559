# Source this.

# Prints a port of the loopback interface on which nothing listens.
free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
