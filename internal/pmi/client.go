package pmi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"time"
)

// The environment variables in which a launcher passes its address, and the process's place in the
// job.
const (
	EnvFD   = "PMI_FD"   // number of an open descriptor: one end of a socket pair
	EnvPort = "PMI_PORT" // host:port of the launcher, used with EnvID if there is no descriptor
	EnvID   = "PMI_ID"   // the number by which the process identifies itself at EnvPort
	EnvRank = "PMI_RANK"
	EnvSize = "PMI_SIZE"
	EnvJob  = "PMI_JOBID" // the job's name; some launchers do not set it
)

// Errors that callers can distinguish.
var (
	// ErrNone means that neither EnvFD nor EnvPort is set.
	ErrNone = errors.New("pmi: this process was not started by a PMI-1 launcher")
	// ErrNoKey means that no rank has put the key.
	ErrNoKey = errors.New("pmi: no such key")
	// ErrGone is wrapped by errors after the launcher has closed the connection, because it has
	// died or is ending the job.
	ErrGone = errors.New("pmi: the launcher has closed the connection")
)

// Client is a process's connection with its launcher. Only one goroutine at a time may use it,
// except that any goroutine may call Abort.
//
// An error of the connection is final: all further calls return it. This includes the end of
// a context after a request has been sent, except at Barrier. ErrNoKey is not final. Neither
// is the error of a request that the launcher refuses, that is too long, or that is not
// allowed within a barrier.
type Client struct {
	lines
	rank, size int
	space      string // name of the key-value space
	key, value int    // the maximum lengths that the launcher allows
	waits      bool   // the process is in a barrier that has not ended
	err        error
}

// Open connects to the launcher that the variables of getenv name, and requests rank, size and the
// name of the key-value space. It takes ownership of the descriptor of EnvFD. It returns when ctx
// ends.
func Open(ctx context.Context, getenv func(string) string) (*Client, error) {
	c := &Client{rank: -1, size: -1}
	var err error
	switch fd, port := getenv(EnvFD), getenv(EnvPort); {
	case fd != "":
		if err = c.inherit(fd); err == nil {
			err = c.place(getenv)
		}
	case port != "":
		err = c.dial(ctx, port, getenv(EnvID))
	default:
		return nil, ErrNone
	}
	if err == nil {
		err = c.begin(ctx)
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// inherit uses the descriptor that the process has inherited from its launcher.
func (c *Client) inherit(fd string) error {
	n, err := strconv.Atoi(fd)
	if err != nil || n < 0 {
		return fmt.Errorf("pmi: environment variable %s is %q, want the number of a descriptor", EnvFD, fd)
	}
	file := os.NewFile(uintptr(n), EnvFD)
	defer file.Close()
	if c.conn, err = net.FileConn(file); err != nil {
		c.conn = nil
		return fmt.Errorf("pmi: %s is %d, which is not an open socket: the program that started this process kept it (without a launcher, unset %s, %s and %s): %w", EnvFD, n, EnvFD, EnvRank, EnvSize, err)
	}
	return nil
}

// place reads the process's rank and the number of ranks from the environment.
func (c *Client) place(getenv func(string) string) (err error) {
	for _, v := range []struct {
		name string
		to   *int
	}{{EnvRank, &c.rank}, {EnvSize, &c.size}} {
		if *v.to, err = strconv.Atoi(getenv(v.name)); err != nil {
			return fmt.Errorf("pmi: environment variable %s is %q, want a number", v.name, getenv(v.name))
		}
	}
	return nil
}

// dial connects to a launcher's port and receives rank and size from the launcher.
func (c *Client) dial(ctx context.Context, port, id string) error {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", port)
	if err != nil {
		return fmt.Errorf("pmi: the launcher at %s=%s: %w", EnvPort, port, err)
	}
	c.conn = conn
	if _, err := c.ask(ctx, NewLine("initack", "pmiid", id), "initack"); err != nil {
		return err
	}
	for c.rank < 0 || c.size < 0 {
		l, err := c.answer(ctx, "set")
		if err != nil {
			return err
		}
		for _, v := range []struct {
			name string
			to   *int
		}{{"rank", &c.rank}, {"size", &c.size}} {
			text, ok := l.Lookup(v.name)
			if !ok {
				continue
			}
			if *v.to, err = strconv.Atoi(text); err != nil || *v.to < 0 {
				return c.fail(fmt.Errorf("pmi: the launcher reports %s %q, want a number", v.name, text))
			}
		}
	}
	return nil
}

// begin negotiates the version, and requests the limits and the name of the key-value space.
func (c *Client) begin(ctx context.Context) error {
	l, err := c.ask(ctx, NewLine("init", "pmi_version", "1", "pmi_subversion", "1"), "response_to_init")
	if err != nil {
		return err
	}
	if version := l.Value("pmi_version"); version != "1" {
		return c.fail(fmt.Errorf("pmi: the launcher uses PMI version %q, this process version 1", version))
	}
	if l, err = c.ask(ctx, NewLine("get_maxes"), "maxes"); err != nil {
		return err
	}
	for _, v := range []struct {
		name string
		to   *int
	}{{"keylen_max", &c.key}, {"vallen_max", &c.value}} {
		if *v.to, err = strconv.Atoi(l.Value(v.name)); err != nil || *v.to < 1 {
			return c.fail(fmt.Errorf("pmi: the launcher's %s is %q, want a number", v.name, l.Value(v.name)))
		}
	}
	if l, err = c.ask(ctx, NewLine("get_my_kvsname"), "my_kvsname"); err != nil {
		return err
	}
	if c.space = l.Value("kvsname"); c.space == "" {
		return c.fail(errors.New("pmi: the launcher reports no name for its key-value space"))
	}
	if c.size < 1 || c.rank < 0 || c.rank >= c.size {
		return c.fail(fmt.Errorf("pmi: invalid rank %d of %d from the launcher", c.rank, c.size))
	}
	return nil
}

// Rank returns the rank of the process; the first rank is 0.
func (c *Client) Rank() int { return c.rank }

// Size returns the number of ranks in the job.
func (c *Client) Size() int { return c.size }

// Space returns the name of the job's key-value space. It differs between the running jobs of a
// launcher.
func (c *Client) Space() string { return c.space }

// Put publishes a value, which all ranks can Get after the next Barrier. A key can be put only
// once.
func (c *Client) Put(ctx context.Context, key, value string) error {
	if len(key) >= c.key || len(value) >= c.value {
		return fmt.Errorf("pmi: key %q and its value have %d and %d bytes, this launcher allows less than %d and %d", key, len(key), len(value), c.key, c.value)
	}
	_, err := c.ask(ctx, NewLine("put", "kvsname", c.space, "key", key, "value", value), "put_result")
	return err
}

// Barrier returns when all ranks have called it. If ctx ends first, Barrier can be called again,
// and continues to wait for the same barrier.
func (c *Client) Barrier(ctx context.Context) error {
	if !c.waits {
		if err := c.send(ctx, NewLine("barrier_in")); err != nil {
			return err
		}
		c.waits = true
	}
	_, err := c.answer(ctx, "barrier_out")
	if err == nil {
		c.waits = false
	}
	return err
}

// Get returns the value of a key, or ErrNoKey if no rank had put the key before the last Barrier.
func (c *Client) Get(ctx context.Context, key string) (string, error) {
	l, err := c.exchange(ctx, NewLine("get", "kvsname", c.space, "key", key), "get_result")
	if err != nil {
		return "", err
	}
	value, ok := l.Lookup("value")
	if l.Value("rc") != "0" || l.Value("found") == "false" || !ok {
		return "", fmt.Errorf("%w: %q", ErrNoKey, key)
	}
	return value, nil
}

// Finalize notifies the launcher that this rank ends normally, and closes the connection.
func (c *Client) Finalize(ctx context.Context) error {
	_, err := c.ask(ctx, NewLine("finalize"), "finalize_ack")
	if errors.Is(err, ErrGone) { // some launchers close the connection without an answer
		err = nil
	}
	c.Close()
	return err
}

// abortFor is the maximum time that Abort waits until its request can be sent.
const abortFor = 2 * time.Second

// ExitCode returns the exit code of the processes of a job that was aborted with code. The system
// uses only the low 8 bits. If these are 0, as in 256, the exit code is 1, because an aborted job
// has failed.
func ExitCode(code int) int {
	if low := code & 0xff; low != 0 {
		return low
	}
	return 1
}

// Abort requests that the launcher end the whole job with ExitCode(code). It does not wait for an
// answer, because the protocol has none.
func (c *Client) Abort(code int) error {
	c.conn.SetWriteDeadline(time.Now().Add(abortFor))
	l := NewLine("abort", "exitcode", strconv.Itoa(ExitCode(code)))
	return c.write(l)
}

// Close closes the connection without notifying the launcher, which may conclude that this process
// has died.
func (c *Client) Close() error {
	if c.err == nil {
		c.err = ErrGone
	}
	if c.conn == nil {
		return nil
	}
	return c.conn.Close()
}

// ask sends a request and returns the answer. It returns an error if the answer's command is not
// want, or if the answer reports a failure.
func (c *Client) ask(ctx context.Context, l Line, want string) (Line, error) {
	got, err := c.exchange(ctx, l, want)
	if err != nil {
		return got, err
	}
	if rc, ok := got.Lookup("rc"); ok && rc != "0" {
		return got, fmt.Errorf("pmi: the launcher refuses %s: rc=%s %s", l.Cmd, rc, got.Value("msg"))
	}
	return got, nil
}

func (c *Client) exchange(ctx context.Context, l Line, want string) (Line, error) {
	if err := c.send(ctx, l); err != nil {
		return Line{}, err
	}
	got, err := c.answer(ctx, want)
	if err != nil {
		c.fail(err) // the next request could otherwise receive this request's late answer
	}
	return got, err
}

func (c *Client) send(ctx context.Context, l Line) error {
	if c.err != nil {
		return c.err
	}
	if c.waits {
		return fmt.Errorf("pmi: %s: not allowed within a barrier", l.Cmd)
	}
	if ctx.Err() != nil {
		return fmt.Errorf("pmi: %s: %w", l.Cmd, context.Cause(ctx))
	}
	defer c.until(ctx)()
	err := c.write(l)
	if err != nil && !errors.Is(err, ErrLine) { // an invalid line has not been sent, so the connection is still usable
		return c.fail(c.explain(ctx, err))
	}
	return err
}

// maxSets is the maximum number of unused settings that answer skips.
const maxSets = 16

// answer reads the next line, whose command must be want. If ctx ends first, the answer can still
// be read later.
func (c *Client) answer(ctx context.Context, want string) (Line, error) {
	if c.err != nil {
		return Line{}, c.err
	}
	defer c.until(ctx)()
	l, err := c.read()
	for range maxSets {
		if err != nil || l.Cmd != "set" || want == "set" {
			break
		}
		l, err = c.read() // skip the other settings that a launcher with a port sends
	}
	switch {
	case err != nil && ctx.Err() != nil && errors.Is(err, os.ErrDeadlineExceeded):
		return l, fmt.Errorf("pmi: the launcher has not answered with %s: %w", want, context.Cause(ctx))
	case err != nil:
		return l, c.fail(c.explain(ctx, err))
	case l.Cmd != want:
		return l, c.fail(fmt.Errorf("pmi: the launcher answers with %s, want %s", l.Cmd, want))
	}
	return l, nil
}

// until makes reads and writes end when ctx ends, until the returned function is called.
func (c *Client) until(ctx context.Context) func() {
	c.conn.SetDeadline(time.Time{})
	past := time.Unix(1, 0)
	set := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		c.conn.SetDeadline(past)
		close(set)
	})
	return func() {
		if !stop() {
			<-set // otherwise the deadline could end the next request
		}
	}
}

// explain returns the error of a connection that is no longer usable.
func (c *Client) explain(ctx context.Context, err error) error {
	switch {
	case errors.Is(err, ErrLine):
		return err
	case errors.Is(err, os.ErrDeadlineExceeded) && ctx.Err() != nil:
		return fmt.Errorf("pmi: the launcher does not read: %w", context.Cause(ctx))
	case errors.Is(err, io.EOF):
		return fmt.Errorf("%w: has it died?", ErrGone)
	}
	return fmt.Errorf("%w: has it died? %w", ErrGone, err)
}

// fail makes err the final error of the connection, unless it has one already.
func (c *Client) fail(err error) error {
	if c.err == nil {
		c.err = err
	}
	return c.err
}
