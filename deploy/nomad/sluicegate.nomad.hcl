# nomad job run deploy/nomad/sluicegate.nomad.hcl
#
# A server on each client node of the class `edge`, at ports 443 and 80 of the node. The image is that of deploy/Dockerfile, in a registry
# of yours. Certificate, key and shared secrets are Nomad variables; this writes them:
#   nomad var put nomad/jobs/sluicegate certificate=@fullchain.pem key=@privkey.pem secrets="$(openssl rand -hex 32)"

variable "image" {
  type    = string
  default = "registry.example.com/sluicegate:0.1.0"
}

job "sluicegate" {
  type = "system"

  constraint {
    attribute = "${node.class}"
    value     = "edge"
  }

  # One node at a time, and the next one only when this one serves; older versions of Nomad wait for `stagger` alone.
  update {
    max_parallel     = 1
    min_healthy_time = "10s"
    healthy_deadline = "2m"
    stagger          = "90s"
  }

  group "edge" {
    network {
      # Docker publishes each port for TCP and for UDP.
      port "https" {
        static = 443
        to     = 8443
      }

      port "http" {
        static = 80
        to     = 8080
      }

      # For checks and metrics. Nobody authenticates there, so it is bound to a private address only: in the configuration of each client,
      # client { host_network "private" { cidr = "10.0.0.0/8" } }.
      port "admin" {
        to = 9180

        host_network = "private"
      }
    }

    service {
      name     = "sluicegate"
      provider = "nomad"
      port     = "https"
    }

    service {
      name     = "sluicegate-admin"
      provider = "nomad"
      port     = "admin"

      check {
        name     = "ready"
        type     = "http"
        path     = "/readyz"
        interval = "10s"
        timeout  = "2s"

        # A server whose threads hang is not ready, and a restart helps.
        check_restart {
          limit = 3
          grace = "30s"
        }
      }
    }

    # The service leaves the catalogue this long before the server drains: for load balancers that follow it.
    shutdown_delay = "20s"

    task "sluicegate" {
      driver = "docker"

      config {
        image        = var.image
        ports        = ["https", "http", "admin"]
        args         = ["run", "-c", "/local/sluicegate.toml"]
        cap_drop     = ["all"]
        security_opt = ["no-new-privileges"]

        # The server itself writes to these two. The mode is 1777 in octal.
        readonly_rootfs = true

        mount {
          type   = "tmpfs"
          target = "/tmp"

          tmpfs_options {
            mode = 1023
          }
        }

        mount {
          type   = "tmpfs"
          target = "/var/lib/sluicegate"

          tmpfs_options {
            mode = 1023
          }
        }
      }

      # SIGTERM drains: longer than server.drain_timeout. A client of Nomad cuts it to its max_kill_timeout, 30s by default: raise that.
      kill_signal  = "SIGTERM"
      kill_timeout = "40s"

      # Unless the task has cores of its own (resources.cores), its share of CPU time is no limit: workers are not stopped in between.
      resources {
        cpu    = 1000
        memory = 1024
      }

      template {
        destination = "local/sluicegate.toml"
        # A change is reloaded. What needs a restart is refused, and the log says so.
        change_mode   = "signal"
        change_signal = "SIGHUP"

        data = <<EOT
[server]
state_dir = "/var/lib/sluicegate"
secrets_file = "/secrets/secrets.txt"
# Nomad makes /secrets with mode 777. Nobody but this task sees it.
open_secrets = true
drain_timeout = "30s"

[[listener]]
name = "public"
address = "0.0.0.0:8443"
http_address = "0.0.0.0:8080"
https_port = 443
tls = { certificate = "/secrets/certificate.pem", key = "/secrets/key.pem" }

[[route]]
path = "/"
fixed = { body = "Sluicegate runs.\n" }

[admin]
address = "0.0.0.0:9180"

[access_log]
file = "stdout"

[log]
format = "json"
EOT
      }

      template {
        destination   = "secrets/certificate.pem"
        uid           = 10001
        perms         = "0400"
        change_mode   = "signal"
        change_signal = "SIGHUP"
        data          = "{{ with nomadVar \"nomad/jobs/sluicegate\" }}{{ .certificate }}{{ end }}\n"
      }

      template {
        destination   = "secrets/key.pem"
        uid           = 10001
        perms         = "0400"
        change_mode   = "signal"
        change_signal = "SIGHUP"
        data          = "{{ with nomadVar \"nomad/jobs/sluicegate\" }}{{ .key }}{{ end }}\n"
      }

      # Tokens and session tickets of each server hold at the others, which read the file again within half a minute.
      template {
        destination = "secrets/secrets.txt"
        uid         = 10001
        perms       = "0400"
        change_mode = "noop"
        data        = "{{ with nomadVar \"nomad/jobs/sluicegate\" }}{{ .secrets }}{{ end }}\n"
      }
    }
  }
}
