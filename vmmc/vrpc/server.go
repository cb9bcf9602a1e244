package vrpc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bobnet-go/bobnet/internal/admission"
	"github.com/bobnet-go/bobnet/internal/logqueue"
	"github.com/bobnet-go/bobnet/vmmc/xdr"
)

// What holds where ServerConfig does not say.
const (
	DefaultMaxMessage       = 4 << 20
	defaultMaxConns         = 1024
	defaultMaxPeerConns     = 256
	defaultMaxMemory        = 256 << 20
	defaultIdleTimeout      = 10 * time.Minute
	defaultRecordTimeout    = 30 * time.Second
	defaultDatagramWorkers  = 8
	defaultDuplicateEntries = 1024
	defaultDuplicateBytes   = 8 << 20
	defaultDuplicateAge     = 2 * time.Minute
)

// closePatience is how long Close waits for procedures that do not heed their context.
const closePatience = 5 * time.Second

// ServerConfig bounds what a server does for its clients. The zero value is for most of them.
type ServerConfig struct {
	// MaxMessage is how many bytes a call or a reply over a stream may have, 0 for
	// DefaultMaxMessage. A longer call ends its connection, a longer reply is SystemErr.
	MaxMessage int
	// MaxFragment is how long the fragments of a reply over a stream are at most, 0 for
	// replies in one fragment.
	MaxFragment int
	// MaxConns is how many connections may be open, 0 for 1024. Further ones are
	// closed at once.
	MaxConns int
	// MaxPeerConns is how many of them one peer may have, 0 for 256. A peer is a
	// user of this host, an address, or a node of VMMC.
	MaxPeerConns int
	// MaxMemory is how many bytes the calls and replies of all connections over streams may take
	// that are longer than 64 KiB, 0 for 256 MiB. One peer may take a quarter of it, or
	// four times MaxMessage if that is more. A call or a reply for which there is no room ends its
	// connection.
	MaxMemory int64
	// IdleTimeout is how long a connection may be silent between calls, 0 for
	// 10 minutes, negative for ever.
	IdleTimeout time.Duration
	// RecordTimeout is how long one call may take to arrive from its first byte to its last,
	// and a reply to be taken, 0 for 30 s.
	RecordTimeout time.Duration
	// Ring is how many bytes of memory each client over VMMC gets for its calls, 0 for
	// DefaultRing. Longer calls come in pieces; a call of up to 3/8 of it is in one piece, and
	// its arguments can be used in place.
	Ring int
	// Parallel is how many calls of one connection are carried out at once, 0 for 1: then
	// they are carried out, and answered, in the order in which they were sent.
	Parallel int
	// DatagramWorkers is how many calls of one UDP socket are carried out at once,
	// 0 for 8.
	DatagramWorkers int
	// DuplicateEntries, DuplicateBytes and DuplicateAge bound the duplicate request cache of
	// each UDP socket: how many replies it keeps, how many bytes these have together, and for how
	// long; 0 for 1024, 8 MiB and 2 minutes.
	DuplicateEntries int
	DuplicateBytes   int
	DuplicateAge     time.Duration
	// Shorthands is how many AUTH_SYS credentials the server gives an AUTH_SHORT name to
	// and remembers; 0 for none.
	Shorthands int
	// Logger gets what clients are only told as SystemErr, and panics; nil for slog.Default.
	// Its handler is called as vipl.Config.Logger says, and may block.
	Logger *slog.Logger
}

func (c *ServerConfig) setDefaults() {
	setDefault(&c.MaxMessage, DefaultMaxMessage)
	setDefault(&c.MaxConns, defaultMaxConns)
	setDefault(&c.MaxPeerConns, defaultMaxPeerConns)
	setDefault(&c.MaxMemory, defaultMaxMemory)
	setDefault(&c.IdleTimeout, defaultIdleTimeout)
	setDefault(&c.RecordTimeout, defaultRecordTimeout)
	setDefault(&c.Parallel, 1)
	setDefault(&c.DatagramWorkers, defaultDatagramWorkers)
	setDefault(&c.DuplicateEntries, defaultDuplicateEntries)
	setDefault(&c.DuplicateBytes, defaultDuplicateBytes)
	setDefault(&c.DuplicateAge, defaultDuplicateAge)
	c.Logger = logqueue.New(c.Logger).Logger()
}

// gate returns the bounds of peers.
func (c *ServerConfig) gate() *admission.Gate[string] {
	return admission.New[string](admission.Limits{Conns: c.MaxPeerConns, AllConns: c.MaxConns,
		Bytes: min(c.MaxMemory, max(c.MaxMemory/4, 4*int64(c.MaxMessage))), AllBytes: c.MaxMemory})
}

func setDefault[T int | int64 | time.Duration](v *T, to T) {
	if *v == 0 {
		*v = to
	}
}

// Server answers the calls of clients that come by any number of transports, on one
// dispatch table. Goroutines may share it.
type Server struct {
	cfg        ServerConfig
	gate       *admission.Gate[string]
	shorthands *shorthands // nil for none
	table      atomic.Pointer[table]
	stats      serverStats
	ctx        context.Context // of procedures; ends with Close
	cancel     context.CancelFunc

	mu        sync.Mutex
	closed    bool
	open      map[io.Closer]struct{} // listeners, sockets and connections
	endpoints []Endpoint
	onClose   []func()
	tasks     sync.WaitGroup
}

// NewServer returns a server with no program and no transport.
func NewServer(cfg *ServerConfig) *Server {
	s := &Server{open: make(map[io.Closer]struct{})}
	if cfg != nil {
		s.cfg = *cfg
	}
	s.cfg.setDefaults()
	s.gate = s.cfg.gate()
	s.table.Store(&table{})
	s.ctx, s.cancel = context.WithCancel(context.Background())
	if s.cfg.Shorthands > 0 {
		s.shorthands = newShorthands(s.cfg.Shorthands)
	}
	return s
}

// Start runs task on a goroutine that Close waits for, and closes c, which makes task
// end, when the server closes. Transports begin with it. When task returns c is closed, too.
// The error is ErrClosed; c is closed then.
func (s *Server) Start(c io.Closer, task func(ctx context.Context)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		c.Close()
		return ErrClosed
	}
	s.open[c] = struct{}{}
	s.tasks.Go(func() {
		defer s.forget(c)
		task(s.ctx)
	})
	return nil
}

func (s *Server) forget(c io.Closer) {
	c.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, c)
}

// OnClose has fn called at the beginning of Close, when the server still answers: what the
// server was announced to is told then.
func (s *Server) OnClose(fn func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.onClose = append(s.onClose, fn)
}

// Close stops the server: it accepts no more calls, closes connections, cancels the contexts
// of procedures, and waits for them to return. It returns an error if procedures do not return
// within 5 seconds; they continue. A second Close returns ErrClosed at once.
func (s *Server) Close() error {
	s.mu.Lock()
	hooks := s.onClose
	s.onClose = nil
	s.mu.Unlock()
	for _, fn := range hooks {
		fn()
	}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return ErrClosed
	}
	s.closed = true
	for c := range s.open {
		c.Close()
	}
	s.mu.Unlock()
	s.cancel()
	err := s.wait()
	logqueue.New(s.cfg.Logger).Flush(logFlush)
	return err
}

// logFlush is how long Close waits for the last lines of the log to be handled.
const logFlush = 100 * time.Millisecond

func (s *Server) wait() error {
	done := make(chan struct{})
	go func() {
		s.tasks.Wait()
		close(done)
	}()
	timer := time.NewTimer(closePatience)
	defer timer.Stop()
	select {
	case <-done:
		return nil
	case <-timer.C:
		return errors.New("vrpc: the server is closed, but procedures are running: they must return when their context ends")
	}
}

// logFailure logs what the client is told as SystemErr.
func (s *Server) logFailure(c *Call, err error) {
	s.cfg.Logger.Error("vrpc: procedure failed", "program", c.header.prog, "version", c.header.vers,
		"procedure", c.header.proc, "peer", c.session.Peer.String(), "err", err)
}

// program is a registered Program.
type program struct {
	number, version uint32
	name            string
	procedures      map[uint32]*Procedure
	authorize       func(*Call) AuthStat
	inPlace         bool
	resultsInPlace  bool
	stats           programStats
}

// table is the dispatch table: the versions of each program. It is replaced as a whole,
// so that calls read it without a lock.
type table map[uint32]map[uint32]*program

// Register adds a version of a program to the dispatch table. Registering it twice is an
// error. Calls find it when Register returns, over every transport. Registering
// it at rpcbind is a separate step.
func (s *Server) Register(p *Program) error {
	if err := p.check(); err != nil {
		return err
	}
	entry := &program{
		number: p.Number, version: p.Version, name: p.Name,
		procedures: make(map[uint32]*Procedure), authorize: p.Authorize, inPlace: p.InPlace, resultsInPlace: p.ResultsInPlace,
	}
	for _, proc := range p.Procedures {
		entry.procedures[proc.Number] = &proc
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	old := *s.table.Load()
	if old[p.Number][p.Version] != nil {
		return fmt.Errorf("vrpc: program %d version %d is registered already", p.Number, p.Version)
	}
	next := maps.Clone(old)
	versions := maps.Clone(old[p.Number])
	if versions == nil {
		versions = make(map[uint32]*program)
	}
	versions[p.Version] = entry
	next[p.Number] = versions
	s.table.Store(&next)
	return nil
}

// Unregister takes a version of a program out of the dispatch table, and reports whether it
// was there. Calls that have been dispatched go on.
func (s *Server) Unregister(number, version uint32) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := *s.table.Load()
	if old[number][version] == nil {
		return false
	}
	next := maps.Clone(old)
	versions := maps.Clone(old[number])
	delete(versions, version)
	next[number] = versions
	if len(versions) == 0 {
		delete(next, number)
	}
	s.table.Store(&next)
	return true
}

// find returns the program that is called, or ProgUnavail or ProgMismatch.
func (s *Server) find(c *Call) (*program, error) {
	versions, ok := (*s.table.Load())[c.header.prog]
	if !ok {
		s.stats.ProgUnavail.Add(1)
		return nil, ProgUnavail
	}
	p := versions[c.header.vers]
	if p == nil {
		s.stats.ProgMismatch.Add(1)
		return nil, ProgMismatch
	}
	return p, nil
}

// versions returns the lowest and the highest version of a program.
func (s *Server) versions(number uint32) (low, high uint32) {
	versions := slices.Sorted(maps.Keys((*s.table.Load())[number]))
	if len(versions) == 0 {
		return 0, 0 // it has just been unregistered
	}
	return versions[0], versions[len(versions)-1]
}

// programs returns all that is registered, by number and version.
func (s *Server) programs() (list []*program) {
	for _, versions := range *s.table.Load() {
		list = slices.AppendSeq(list, maps.Values(versions))
	}
	slices.SortFunc(list, func(a, b *program) int {
		return cmp.Or(cmp.Compare(a.number, b.number), cmp.Compare(a.version, b.version))
	})
	return list
}

// Program is one version of a program: what Server.Register enters into the dispatch
// table. The server copies it; changes afterwards have no effect.
type Program struct {
	Number, Version uint32
	Name            string // for people
	// Procedures are those of this version, in any order. Procedure 0 is there in any case:
	// it takes and returns nothing (RFC 5531 section 12.1).
	Procedures []Procedure
	// Authorize, if not nil, is asked before each call of a procedure but 0. An AuthStat,
	// for example AuthTooWeak, denies the call; it is called as a procedure is, without its
	// arguments.
	Authorize func(c *Call) AuthStat
	// InPlace leaves opaque arguments in the message instead of copying them: they are valid
	// until the procedure returns. (Those that Proc decodes are in any case.)
	InPlace bool
	// ResultsInPlace has opaque results of 8 KiB or more sent over VMMC from where they lie
	// instead of copying them. They must not change until the reply has been sent: Call.OnSent
	// tells. They may lie in the arguments.
	ResultsInPlace bool
}

// Procedure is one procedure of a Program.
type Procedure struct {
	Number uint32
	Name   string // for people
	// Run carries out a call: it decodes the arguments (Call.Decode), does the work and
	// encodes the results (Call.Encode), each at most once. It is called by several goroutines
	// at once. What its error means:
	//
	//	nil                      the results follow
	//	an AcceptStat            answered with it; Call.Decode returns GarbageArgs
	//	an AuthStat              the call is denied
	//	ErrNoReply               no reply
	//	anything else, or panic  SystemErr; the server logs the error
	//
	// The error of a call that the procedure made itself, an *RPCError, is anything else.
	Run func(c *Call) error
}

// argument is the pointer to an argument type, as Proc needs it.
type argument[T any] interface {
	*T
	xdr.Unmarshaler
}

// result is the pointer to a result type, as Proc needs it.
type result[T any] interface {
	*T
	xdr.Marshaler
}

// Proc returns the procedure that decodes an A, calls run, and encodes an R. The types are
// inferred from run; xdr.Void is for no argument or no result.
//
// The argument is valid until run returns, with all it points to: its memory is decoded into
// again. The result is zero when run is called, and belongs to the server from when it
// returns until the reply is encoded, or sent (Program.ResultsInPlace); what it refers to is
// only read. So a call allocates nothing, unless run does or the argument contains strings or
// needs more memory than before.
func Proc[A, R any, PA argument[A], PR result[R]](number uint32, name string, run func(c *Call, arg *A, res *R) error) Procedure {
	type space struct {
		arg A
		res R
	}
	spaces := sync.Pool{New: func() any { return new(space) }}
	return Procedure{number, name, func(c *Call) error {
		s := spaces.Get().(*space)
		if err := c.Decode(PA(&s.arg)); err != nil {
			return err // and s is not used again: it may lie partly in the message
		}
		err := run(c, &s.arg, &s.res)
		if err == nil {
			err = c.Encode(PR(&s.res))
		}
		if c.dec.InPlace || len(c.enc.Refs()) > 0 { // which may be to it
			s.arg = *new(A)
		}
		s.res = *new(R)
		spaces.Put(s)
		return err
	}}
}

// check says what is wrong with a program.
func (p *Program) check() error {
	seen := make(map[uint32]bool)
	for i := range p.Procedures {
		switch proc := &p.Procedures[i]; {
		case proc.Run == nil:
			return fmt.Errorf("vrpc: program %d version %d: procedure %d has no Run", p.Number, p.Version, proc.Number)
		case seen[proc.Number]:
			return fmt.Errorf("vrpc: program %d version %d: procedure %d is there twice", p.Number, p.Version, proc.Number)
		default:
			seen[proc.Number] = true
		}
	}
	return nil
}
