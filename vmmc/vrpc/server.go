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

// Defaults of ServerConfig.
const (
	defaultMaxMessage       = 4 << 20
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

// closePatience is how long Close waits for procedures that ignore the end of their context.
const closePatience = 5 * time.Second

// ServerConfig bounds the resources that a server spends on its clients. The zero value suits most
// servers.
type ServerConfig struct {
	// MaxMessage is the maximum length, in bytes, of a call or a reply over a stream; 0
	// means 4 MiB. A longer call ends its connection. For a longer reply the client gets
	// SystemErr instead.
	MaxMessage int
	// MaxFragment is the longest fragment of a reply over a stream, in bytes; 0 means that each
	// reply is one fragment.
	MaxFragment int
	// MaxConns is the maximum number of open connections; 0 means 1024. Further connections are
	// closed at once.
	MaxConns int
	// MaxPeerConns is the maximum number of connections of one peer; 0 means 256. A peer is a user
	// of this host, an address, or a node of VMMC.
	MaxPeerConns int
	// MaxMemory is the maximum memory, in bytes, for calls and replies of more than 64 KiB on
	// all stream connections together; 0 means 256 MiB. One peer may use a quarter of it, or
	// four times MaxMessage if that is more. A call or a reply beyond these limits ends its
	// connection.
	MaxMemory int64
	// IdleTimeout is how long a connection may be silent between calls; 0 means 10 minutes,
	// negative means no limit.
	IdleTimeout time.Duration
	// RecordTimeout bounds the time in which one call arrives, from its first byte to its last, and
	// in which the client accepts a reply; 0 means 30 s.
	RecordTimeout time.Duration
	// Ring is the memory in bytes for the calls of each client over VMMC; 0 means 256 KiB.
	// Longer calls arrive in pieces. A call of up to 3/8 of Ring arrives in one piece, and its
	// arguments can be used in place.
	Ring int
	// Parallel is how many calls of one connection run concurrently; 0 means 1: they then run, and
	// are answered, in the order in which they were sent.
	Parallel int
	// DatagramWorkers is how many calls of one UDP socket run concurrently; 0 means 8.
	DatagramWorkers int
	// DuplicateEntries, DuplicateBytes and DuplicateAge bound the duplicate request cache of each
	// UDP socket: the number of replies, their total bytes, and their age; 0 means 1024, 8 MiB and
	// 2 minutes.
	DuplicateEntries int
	DuplicateBytes   int
	DuplicateAge     time.Duration
	// Shorthands is the number of AUTH_SYS credentials for which the server issues AUTH_SHORT
	// shorthands and remembers them; 0 means none.
	Shorthands int
	// Logger receives panics, and errors that clients see only as SystemErr; nil means
	// slog.Default(). Its handler is called as documented at vipl.Config.Logger, and may block.
	Logger *slog.Logger
}

func (c *ServerConfig) setDefaults() {
	setDefault(&c.MaxMessage, defaultMaxMessage)
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

// gate returns the limits of peers.
func (c *ServerConfig) gate() *admission.Gate[string] {
	return admission.New[string](admission.Limits{Conns: c.MaxPeerConns, AllConns: c.MaxConns,
		Bytes: min(c.MaxMemory, max(c.MaxMemory/4, 4*int64(c.MaxMessage))), AllBytes: c.MaxMemory})
}

func setDefault[T int | int64 | time.Duration](v *T, to T) {
	if *v == 0 {
		*v = to
	}
}

// Server serves the calls of clients over any number of transports, with one dispatch table.
// Goroutines may share it.
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

// NewServer returns a server without programs and transports.
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

// Start runs task on a goroutine that Close waits for. Close closes c, which must make task end.
// Transports start with it. When task returns, c is closed, too. If the server is closed, Start
// closes c and returns ErrClosed.
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

// OnClose registers fn to be called at the beginning of Close, while the server still serves calls.
// fn can withdraw announcements of the server.
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

// logFlush is how long Close waits for the logger's handler to finish the last lines.
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
		return errors.New("vrpc: the server is closed, but procedures are still running (they must return when their context ends)")
	}
}

// logFailure logs an error that the client sees as SystemErr.
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

// table is the dispatch table: the versions of each program. It is replaced as a whole, so that
// calls read it without a lock.
type table map[uint32]map[uint32]*program

// Register adds a version of a program to the dispatch table. Registering it twice is an error.
// When Register returns, calls over every transport find the program. Registration at rpcbind is a
// separate step.
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
		return fmt.Errorf("vrpc: program %d version %d is already registered", p.Number, p.Version)
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

// Unregister removes a version of a program from the dispatch table, and reports whether it was
// there. Calls that have been dispatched continue.
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

// find returns the program of a call, or ProgUnavail or ProgMismatch.
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

// programs returns all registered programs, sorted by number and version.
func (s *Server) programs() (list []*program) {
	for _, versions := range *s.table.Load() {
		list = slices.AppendSeq(list, maps.Values(versions))
	}
	slices.SortFunc(list, func(a, b *program) int {
		return cmp.Or(cmp.Compare(a.number, b.number), cmp.Compare(a.version, b.version))
	})
	return list
}

// Program is one version of a program, for Server.Register. The server copies it; later changes
// have no effect.
type Program struct {
	Number, Version uint32
	Name            string // for display
	// Procedures are the procedures of this version, in any order. Procedure 0 always exists: it
	// has neither arguments nor results (RFC 5531 section 12.1).
	Procedures []Procedure
	// Authorize, if not nil, is called before each call of a procedure other than 0. An AuthStat,
	// for example AuthTooWeak, denies the call. It is called like a procedure, but without
	// arguments.
	Authorize func(c *Call) AuthStat
	// InPlace leaves opaque arguments in the message instead of copying them. They are valid until
	// the procedure returns. (Arguments that Proc decodes are only valid that long in any case.)
	InPlace bool
	// ResultsInPlace sends opaque results of 8 KiB or more straight from their memory over VMMC,
	// instead of copying them. They must not change until the reply has been sent; Call.OnSent
	// reports that. They may lie in the arguments.
	ResultsInPlace bool
}

// Procedure is one procedure of a Program.
type Procedure struct {
	Number uint32
	Name   string // for display
	// Run runs a call: it decodes the arguments (Call.Decode), does the work and encodes the
	// results (Call.Encode), each at most once. Several goroutines call it concurrently. Its error
	// determines the reply:
	//
	//	nil                      the results follow
	//	an AcceptStat            the same AcceptStat; Call.Decode returns GarbageArgs
	//	an AuthStat              the call is denied
	//	ErrNoReply               no reply
	//	anything else, or panic  SystemErr; the server logs the error
	//
	// An *RPCError, the error of a call that the procedure made itself, counts as anything else.
	Run func(c *Call) error
}

// argument is the constraint of pointers to argument types of Proc.
type argument[T any] interface {
	*T
	xdr.Unmarshaler
}

// result is the constraint of pointers to result types of Proc.
type result[T any] interface {
	*T
	xdr.Marshaler
}

// Proc returns the procedure that decodes an A, calls run, and encodes an R. The types are inferred
// from run. Use xdr.Void for no argument or no result.
//
// The argument and everything it points to are valid until run returns: the next call decodes into
// the same memory. The result is zero when run is called. After run returns, it belongs to the
// server until the reply is encoded, or sent (Program.ResultsInPlace). The server only reads the
// memory that it refers to. So a call allocates nothing, unless run does, the argument contains
// strings, or it needs more memory than before.
func Proc[A, R any, PA argument[A], PR result[R]](number uint32, name string, run func(c *Call, arg *A, res *R) error) Procedure {
	type space struct {
		arg A
		res R
	}
	spaces := sync.Pool{New: func() any { return new(space) }}
	return Procedure{number, name, func(c *Call) error {
		s := spaces.Get().(*space)
		if err := c.Decode(PA(&s.arg)); err != nil {
			return err // and s is not reused: it may lie partly in the message
		}
		err := run(c, &s.arg, &s.res)
		if err == nil {
			err = c.Encode(PR(&s.res))
		}
		if c.dec.InPlace || len(c.enc.Refs()) > 0 { // references may be to it
			s.arg = *new(A)
		}
		s.res = *new(R)
		spaces.Put(s)
		return err
	}}
}

// check returns an error if a program is invalid.
func (p *Program) check() error {
	seen := make(map[uint32]bool)
	for i := range p.Procedures {
		switch proc := &p.Procedures[i]; {
		case proc.Run == nil:
			return fmt.Errorf("vrpc: program %d version %d: procedure %d has no Run", p.Number, p.Version, proc.Number)
		case seen[proc.Number]:
			return fmt.Errorf("vrpc: program %d version %d: duplicate procedure %d", p.Number, p.Version, proc.Number)
		default:
			seen[proc.Number] = true
		}
	}
	return nil
}
