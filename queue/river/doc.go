// Package river queues calls that may wait, on riverqueue/river with SQLite or PostgreSQL.
package river
