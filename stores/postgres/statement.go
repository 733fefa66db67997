package postgres

import (
	"strings"
	"sync"
)

// What a commit is made of. The scope rows of a group are locked in the order of
// their names before one of them is written, so that two groups never wait for
// each other: first the new scopes, whose rows are locks once they are inserted,
// then those that exist, then the turn to append to the log. That a scope is in
// both kinds does no harm: what is inserted by one is not seen by another, and
// who deletes a row has all locks of both kinds by then.
//
// Each part uses the one before as a number, or as a set to look up: joined by
// name, a cached plan would go through it once for each write.

// A shape says what the writes of a group have among them. The common group has
// none of it, and the shortest text.
type shape uint8

const (
	hasNew    shape = 1 << iota // scopes that are not there yet
	hasSnap                     // snapshots
	hasForget                   // scopes to forget
	hasRows                     // rows of the log
	shapes
)

// What a write does to its scope's row, as the statement's column mode.
const (
	modeDue     = iota // writes it, with a due time
	modeKeep           // writes it, and leaves the due time
	modeNew            // makes it
	modeForget         // deletes it
	modeNothing        // forgets a scope that must not be there
)

// never stands for no due time in the statement's parameters.
const never = "9223372036854775807"

// statements are the texts that depend on the prefix alone.
type statements struct {
	load, remove, unsnap, due, mend string

	cfg    Config
	base   string
	mu     sync.Mutex
	commit [shapes]string
}

// init fills in what each store needs.
func (t *statements) init(d *db) {
	c := d.cfg
	t.cfg, t.base = c, d.base()
	t.load = c.named(`SELECT h.version, s.snapshot, h.tail, h.snapped IS NOT NULL AND s.scope IS NULL FROM {scopes} h
		LEFT JOIN {snapshots} s ON s.scope = h.scope AND s.version = h.snapped WHERE h.scope = $1`)
	t.remove = c.named(`WITH gone AS (DELETE FROM {scopes} WHERE scope = $1 RETURNING 1)
		SELECT count(*), ` + durable + ` FROM gone`)
	t.unsnap = c.named(`DELETE FROM {snapshots} WHERE scope = $1`)
	t.due = c.named(`SELECT scope, look, due FROM {scopes}
		WHERE (look, scope) > ($1, $2) AND look <= $3 ORDER BY look, scope LIMIT $4`)
	t.mend = c.named(`UPDATE {scopes} h SET look = h.due FROM (
			SELECT scope FROM {scopes} WHERE scope = ANY ($1) AND look <= $2 AND (due IS NULL OR due > $2)
			FOR NO KEY UPDATE SKIP LOCKED
		) x WHERE h.scope = x.scope`)
}

// of returns the text for a shape.
func (t *statements) of(s shape) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.commit[s] == "" {
		t.commit[s] = t.cfg.named(commitText(s, t.base))
	}
	return t.commit[s]
}

func commitText(s shape, base string) string {
	var b strings.Builder
	b.WriteString(`WITH w AS MATERIALIZED (
	SELECT * FROM unnest(` + hidden("$1::text[]", "$2::bigint[]", "$3::bigint[]", "$4::bigint[]", "$5::bytea[]", "$6::bytea[]", "$7::smallint[]") + `)
		WITH ORDINALITY AS w (scope, expect, version, due, tail, snapshot, mode, i)
),`)
	if s&hasNew != 0 {
		b.WriteString(`
made AS (
	INSERT INTO {scopes} AS h (scope, version, due, look, snapped, tail)
	SELECT scope, version, nullif(due, ` + never + `), nullif(due, ` + never + `),
		CASE WHEN snapshot IS NOT NULL THEN version END, tail
	FROM w WHERE mode = 2 ORDER BY scope
	ON CONFLICT (scope) DO NOTHING RETURNING h.scope
),`)
	}
	b.WriteString(`
locked AS MATERIALIZED (
	SELECT count(*) AS n FROM (
		SELECT 1 FROM {scopes} WHERE scope = ANY (` + names + `)`)
	if s&hasNew != 0 {
		b.WriteString(` AND (SELECT count(*) FROM made) >= 0`)
	}
	b.WriteString(` ORDER BY scope FOR NO KEY UPDATE
	) x
),
written AS (
	UPDATE {scopes} h SET
		version = w.version,
		due = CASE w.mode WHEN 0 THEN nullif(w.due, ` + never + `) ELSE h.due END,
		look = CASE w.mode WHEN 0 THEN least(h.look, nullif(w.due, ` + never + `)) ELSE h.look END,
		snapped = CASE WHEN w.snapshot IS NULL THEN h.snapped ELSE w.version END,
		tail = CASE WHEN w.snapshot IS NULL THEN h.tail || w.tail ELSE w.tail END
	FROM w, locked
	WHERE locked.n >= 0 AND h.scope = w.scope AND h.version = w.expect AND w.mode <= 1
	RETURNING w.i
),`)
	if s&hasForget != 0 {
		b.WriteString(`
forgotten AS (
	DELETE FROM {scopes} h USING w, locked
	WHERE locked.n >= 0 AND h.scope = w.scope AND h.version = w.expect AND w.mode = 3
	RETURNING w.i
),`)
	}
	b.WriteString(`
landed AS MATERIALIZED (
	SELECT i FROM written`)
	if s&hasNew != 0 {
		b.WriteString(`
	UNION ALL
	SELECT i FROM w WHERE mode = 2 AND CASE WHEN scope IN (SELECT scope FROM made) THEN true END`)
	}
	if s&hasForget != 0 {
		b.WriteString(`
	UNION ALL
	SELECT i FROM forgotten
	UNION ALL
	SELECT i FROM w WHERE mode = 4
		AND CASE WHEN scope IN (SELECT h.scope FROM {scopes} h WHERE h.scope = ANY (` + names + `)) THEN false ELSE true END`)
	}
	b.WriteString(`
)`)
	done := "(SELECT count(*) FROM landed) >= 0"
	if s&hasSnap != 0 {
		b.WriteString(`,
stored AS (
	INSERT INTO {snapshots} (scope, version, snapshot)
	SELECT scope, version, snapshot FROM w
	WHERE snapshot IS NOT NULL AND CASE WHEN i IN (SELECT i FROM landed) THEN true END
	ON CONFLICT (scope) DO UPDATE SET version = excluded.version, snapshot = excluded.snapshot
	RETURNING 1
)`)
		done += " AND (SELECT count(*) FROM stored) >= 0"
	}
	if s&hasForget != 0 {
		b.WriteString(`,
dropped AS (
	DELETE FROM {snapshots} WHERE scope = ANY (ARRAY(
		SELECT scope FROM w WHERE mode = 3 AND CASE WHEN i IN (SELECT i FROM landed) THEN true END))
	RETURNING 1
)`)
		done += " AND (SELECT count(*) FROM dropped) >= 0"
	}
	told := ""
	if s&hasRows != 0 {
		b.WriteString(rowsText(done, base))
		told = ", (SELECT pg_notify('{rows}', '') FROM turn)"
	}
	b.WriteString("\nSELECT array_agg(i), " + durable + told + " FROM landed")
	return b.String()
}

// names are those of all writes.
const names = `(SELECT $1::text[])::text[]`

// hidden keeps the planner from looking at the parameters. It would find that a
// plan for the few writes of just this group is cheaper than one for any, and
// plan each small group anew, which takes longer than to commit it.
func hidden(params ...string) string {
	return "(SELECT " + strings.Join(params, "), (SELECT ") + ")"
}

// rowsText appends rows of the writes that landed, in their order. Whoever has
// the turn keeps it until its commit can be seen, and takes positions under it:
// so they become visible in their order. It is taken last, and only where there
// are rows. A lineage that is not the server's own makes base NULL, which fails;
// so does a turn that is missing, for which max gives a row.
func rowsText(done, base string) string {
	return `,
r AS MATERIALIZED (
	SELECT * FROM unnest(` + hidden("$8::bigint[]", "$9::text[]", "$10::text[]", "$11::text[]", "$12::bigint[]", "$13::bytea[]",
		"$14::bigint[]", "$15::bigint[]", "$16::bigint[]", "$17::bigint[]") + `)
		WITH ORDINALITY AS r (i, type, scope, id, at, body, k1, k2, k3, k4, n)
	WHERE CASE WHEN i IN (SELECT i FROM landed) THEN true END
),
turn AS MATERIALIZED (
	SELECT ` + base + ` AS base FROM {turns} t
	WHERE t.name = 'decisions' AND (SELECT count(*) FROM r) > 0 AND ` + done + `
	FOR NO KEY UPDATE
),
appended AS (
	INSERT INTO {rows} (base, type, scope, id, at, body, k1, k2, k3, k4)
	SELECT t.base, r.type, r.scope, r.id, r.at, r.body,
		nullif(r.k1, 0), nullif(r.k2, 0), nullif(r.k3, 0), nullif(r.k4, 0)
	FROM (SELECT max(base) AS base FROM turn) t, r ORDER BY r.n
)`
}

// durable makes the commit wait until it is on disk, where the session would not
// have it wait. Stricter settings than the plain one stay.
const durable = `CASE WHEN current_setting('synchronous_commit') = 'off' THEN set_config('synchronous_commit', 'on', true) END`
