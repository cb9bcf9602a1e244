package pmi

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"time"
)

// MaxKeys is the maximum number of keys that a rank may put between two barriers.
const MaxKeys = 1024

// releaseFor is the maximum time that Release waits until it can notify a rank.
const releaseFor = 10 * time.Second

// ServerConfig contains the data that a Server gives its ranks, and the functions that it calls.
// The functions run on the goroutines of Serve. They may call the Server's methods.
type ServerConfig struct {
	Space   string // name of the key-value space
	Size    int    // number of ranks in the job
	Ranks   int    // number of ranks on this node: a barrier is complete here when they have all entered it
	Mapping string // value of the key PMI_process_mapping; "" means no such key
	// Waits is called when the first rank of this node enters a barrier. It returns before Fence is
	// called for that barrier.
	Waits func()
	// Fence is called when all ranks of this node are in a barrier, with the keys and values that
	// they have put since the last barrier.
	Fence func(puts []Word)
	// Abort is called when a rank requests the end of the whole job. code is ExitCode of the
	// requested code: 1 to 255.
	Abort func(rank, code int)
}

// Server answers the ranks of one node. Release ends a barrier, and makes the values that the ranks
// of all nodes have put visible. So a barrier spans the servers of all nodes of a job.
type Server struct {
	cfg ServerConfig

	entering sync.Mutex // held while a rank enters a barrier, including the calls of Waits and Fence; locked before mu

	mu     sync.Mutex
	known  map[int]bool // ranks that have connected
	values map[string]string
	puts   []Word
	inside []*session
}

// session is the connection of one rank.
type session struct {
	lines
	server *Server
	rank   int
	begun  bool
	ended  bool // the rank has finalized

	// The server's mutex guards these fields.
	inside bool // the rank is in a barrier
	keys   int  // number of keys that the rank has put since the last barrier
}

// NewServer returns a server without connections.
func NewServer(cfg ServerConfig) *Server {
	return &Server{cfg: cfg, known: map[int]bool{}, values: map[string]string{"PMI_process_mapping": cfg.Mapping}}
}

// Serve answers a rank until the rank closes the connection, which Serve then closes, too. The
// error describes a request that the protocol does not allow. It is nil if the rank kept the rules,
// whether or not it has finalized.
func (s *Server) Serve(rank int, conn net.Conn) error {
	defer conn.Close()
	c := &session{lines: lines{conn: conn}, server: s, rank: rank}
	s.mu.Lock()
	twice := s.known[rank]
	s.known[rank] = true
	s.mu.Unlock()
	if twice {
		return fmt.Errorf("pmi: rank %d connected twice", rank)
	}
	for {
		l, err := c.read()
		if err == nil {
			err = c.handle(l)
		}
		switch {
		case err == nil:
		case errors.Is(err, ErrLine) || errors.Is(err, errMisbehaves):
			return fmt.Errorf("pmi: rank %d: %w", rank, err)
		case errors.Is(err, io.EOF) && len(c.in) > 0:
			return fmt.Errorf("pmi: rank %d: %w: the connection ended within a line", rank, ErrLine)
		default:
			return nil
		}
	}
}

// errMisbehaves is wrapped by the errors for requests that the protocol does not allow.
var errMisbehaves = errors.New("request not allowed")

func misbehaves(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{errMisbehaves}, args...)...)
}

// handle answers one request.
func (c *session) handle(l Line) error {
	c.server.mu.Lock()
	inside := c.inside
	c.server.mu.Unlock()
	if inside {
		return misbehaves("%s within a barrier", l.Cmd)
	}
	if !c.begun && l.Cmd != "init" || c.ended {
		return misbehaves("%s before init, or after finalize", l.Cmd)
	}
	switch s := c.server; l.Cmd {
	case "init":
		return c.init(l)
	case "get_maxes":
		return c.write(NewLine("maxes", "rc", "0", "kvsname_max", strconv.Itoa(MaxName), "keylen_max", strconv.Itoa(MaxKey), "vallen_max", strconv.Itoa(MaxValue)))
	case "get_appnum":
		return c.write(NewLine("appnum", "rc", "0", "appnum", "0"))
	case "get_my_kvsname":
		return c.write(NewLine("my_kvsname", "rc", "0", "kvsname", s.cfg.Space))
	case "get_universe_size":
		return c.write(NewLine("universe_size", "rc", "0", "size", strconv.Itoa(s.cfg.Size)))
	case "put":
		return c.put(l)
	case "get":
		return c.get(l)
	case "barrier_in":
		return c.enter()
	case "finalize":
		c.ended = true
		return c.write(NewLine("finalize_ack", "rc", "0"))
	case "abort":
		code, err := strconv.Atoi(l.Value("exitcode"))
		if err != nil {
			code = 1
		}
		s.cfg.Abort(c.rank, ExitCode(code))
		return nil
	}
	return misbehaves("unknown command %q", l.Cmd)
}

func (c *session) init(l Line) error {
	rc := "0"
	switch version := l.Value("pmi_version"); {
	case c.begun:
		return misbehaves("init twice")
	case version != "1":
		rc = "-1"
	default:
		c.begun = true
	}
	return c.write(NewLine("response_to_init", "rc", rc, "pmi_version", "1", "pmi_subversion", "1"))
}

func (c *session) put(l Line) error {
	key, value := l.Value("key"), l.Value("value")
	refuse := func(why string) error { return c.write(NewLine("put_result", "rc", "-1", "msg", why)) }
	s := c.server
	s.mu.Lock()
	_, known := s.values[key]
	for _, w := range s.puts {
		known = known || w.Key == key
	}
	fits := key != "" && len(key) < MaxKey && len(value) < MaxValue && c.keys < MaxKeys
	if !known && fits && l.Value("kvsname") == s.cfg.Space {
		c.keys++
		s.puts = append(s.puts, Word{key, value})
		s.mu.Unlock()
		return c.write(NewLine("put_result", "rc", "0"))
	}
	s.mu.Unlock()
	switch {
	case !fits:
		return refuse("too_long_or_too_many")
	case known:
		return refuse("put_already")
	}
	return refuse("no_such_space")
}

func (c *session) get(l Line) error {
	s := c.server
	s.mu.Lock()
	value, ok := s.values[l.Value("key")]
	s.mu.Unlock()
	if !ok || value == "" || l.Value("kvsname") != s.cfg.Space {
		return c.write(NewLine("get_result", "rc", "-1", "msg", "no_such_key"))
	}
	return c.write(NewLine("get_result", "rc", "0", "value", value))
}

// enter puts the rank into a barrier.
func (c *session) enter() error {
	s := c.server
	s.entering.Lock()
	defer s.entering.Unlock()
	s.mu.Lock()
	c.inside = true
	s.inside = append(s.inside, c)
	first, all := len(s.inside) == 1, len(s.inside) == s.cfg.Ranks
	var puts []Word
	if all {
		puts, s.puts = s.puts, nil
	}
	s.mu.Unlock()
	if first {
		s.cfg.Waits()
	}
	if all {
		s.cfg.Fence(puts)
	}
	return nil
}

// Release ends the barrier that Fence was called for. The ranks continue, and can get puts, the
// values that the ranks of all nodes put before the barrier.
func (s *Server) Release(puts []Word) {
	s.mu.Lock()
	for _, w := range puts {
		s.values[w.Key] = w.Value
	}
	out := s.inside
	s.inside = nil
	for _, c := range out {
		c.inside, c.keys = false, 0
	}
	s.mu.Unlock()
	for _, c := range out {
		c.conn.SetWriteDeadline(time.Now().Add(releaseFor))
		c.write(NewLine("barrier_out", "rc", "0"))
		c.conn.SetWriteDeadline(time.Time{})
	}
}
