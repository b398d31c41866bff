// Package sqlstore keeps journals and records of tools in SQLite or PostgreSQL.
package sqlstore
