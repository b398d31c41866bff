package sqlstore

import (
	"cmp"
	"context"
	"database/sql"
	"strconv"
	"strings"
)

// dialect is what SQLite and PostgreSQL say differently. Statements are written with ? for their arguments.
type dialect uint8

const (
	sqlite dialect = iota
	postgres
)

// now is the database's clock in microseconds.
func (d dialect) now() string {
	if d == postgres {
		return "CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS BIGINT)"
	}
	return "CAST(unixepoch('subsec') * 1000000 AS INTEGER)"
}

// time shows a column of microseconds as a time.
func (d dialect) time(column string) string {
	if d == postgres {
		return "to_timestamp(" + column + " / 1000000.0)"
	}
	return "strftime('%Y-%m-%dT%H:%M:%fZ', " + column + " / 1000000.0, 'unixepoch')"
}

// day is the day of a column of microseconds, in UTC, as text.
func (d dialect) day(column string) string {
	if d == postgres {
		return "to_char(to_timestamp(" + column + " / 1000000.0) AT TIME ZONE 'UTC', 'YYYY-MM-DD')"
	}
	return "strftime('%Y-%m-%d', " + column + " / 1000000.0, 'unixepoch')"
}

// rowless ends the definition of a table that is kept in the order of its key.
func (d dialect) rowless() string {
	if d == postgres {
		return ""
	}
	return " WITHOUT ROWID"
}

// bind numbers the arguments where the database wants it. No statement here has a ? in a text.
func (d dialect) bind(query string) string {
	if d != postgres {
		return query
	}
	var b strings.Builder
	for n := 1; ; n++ {
		before, after, found := strings.Cut(query, "?")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		b.WriteString("$" + strconv.Itoa(n))
		query = after
	}
}

// A stmt is a statement and its arguments.
type stmt struct {
	query string
	args  []any
}

// runner is a *sql.DB, *sql.Conn or *sql.Tx.
type runner interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// tx is a transaction, or a database where one statement is one.
type tx struct {
	runner
	kind dialect
}

// exec executes a statement and returns how many rows it concerned.
func (t tx) exec(ctx context.Context, query string, args ...any) (int64, error) {
	r, err := t.ExecContext(ctx, t.kind.bind(query), args...)
	if err != nil {
		return 0, err
	}
	return r.RowsAffected()
}

// one scans the one row of a query. Without a row it is sql.ErrNoRows.
func (t tx) one(ctx context.Context, query string, args []any, into ...any) error {
	return t.QueryRowContext(ctx, t.kind.bind(query), args...).Scan(into...)
}

// all makes a slice of the rows of a query.
func all[T any](ctx context.Context, t tx, query string, args []any, scan func(row scanner, into *T) error) (
	out []T, err error,
) {
	rows, err := t.QueryContext(ctx, t.kind.bind(query), args...)
	if err != nil {
		return nil, err
	}
	defer func() { err = cmp.Or(err, rows.Close()) }()
	for rows.Next() {
		var v T
		if err := scan(rows, &v); err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, rows.Err()
}
