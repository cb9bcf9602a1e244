package vrpc

import (
	"fmt"
	"sync"

	"github.com/bobnet-go/bobnet/vmmc/xdr"
)

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
