package job

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"hash/fnv"

	"github.com/bobnet-go/bobnet/internal/errclass"
	"github.com/bobnet-go/bobnet/internal/joining"
)

// Identity identifies a process within its job. A zero Nonce means that the rank does not know yet
// which run of the job this is.
type Identity struct {
	Job        string // the job's name
	Rank, Size int
	Nonce      uint64 // random number of this run of the job
	// Program is the name of the software that the ranks run, for error texts. Version is the
	// version of its message format, which must be equal at all ranks.
	Program string
	Version uint32

	under string // suffix of the names of one of several programs of a rank
	told  bool   // a launcher has distributed the nonce to all ranks
	tree  bool   // ranks connect along a tree (tree.go), and receive the nonce from the rank above
}

// address returns the name under which a rank of the job is advertised on the segment
// (vipl.NIC.Advertise).
func (id *Identity) address(rank int) string {
	return fmt.Sprintf("job/%s/%d%s", id.Job, rank, id.under)
}

// newNonce returns a random nonce of a run, which is never 0. Only rank 0 calls it.
func newNonce() uint64 {
	var b [8]byte
	rand.Read(b[:])
	return binary.LittleEndian.Uint64(b[:]) | 1
}

// hello is a rank's description of itself. It is the private data of its connection requests, and
// the first message over each connection.
type hello struct {
	Version uint32 // version of the program's message format
	Job     uint64 // hash of the job's name
	Rank    uint32
	Size    uint32    // ranks in the job
	Params  [2]uint32 // further values of the program
	Nonce   uint64    // nonce of this run of the job; 0 while the rank does not know it
}

// describe returns this rank's hello, with two values of the program.
func (id *Identity) describe(params [2]uint32) hello {
	return hello{Version: id.Version, Job: hash(id.Job), Rank: uint32(id.Rank), Size: uint32(id.Size), Params: params, Nonce: id.Nonce}
}

func hash(name string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(name))
	return h.Sum64()
}

// put encodes m into b, which has room for joining.HelloSize bytes.
func (m *hello) put(b []byte) {
	le := binary.LittleEndian
	le.PutUint32(b, m.Version)
	le.PutUint64(b[4:], m.Job)
	le.PutUint32(b[12:], m.Rank)
	le.PutUint32(b[16:], m.Size)
	le.PutUint32(b[20:], m.Params[0])
	le.PutUint32(b[24:], m.Params[1])
	le.PutUint64(b[28:], m.Nonce)
}

// parseHello decodes b, which may hold arbitrary bytes. If b has another version of the format,
// only the version is returned. If b is too short for any version, the version is 0.
func (id *Identity) parseHello(b []byte) (m hello) {
	if len(b) < 4 {
		return m
	}
	le := binary.LittleEndian
	version := le.Uint32(b)
	switch {
	case version != id.Version:
		return hello{Version: version}
	case len(b) < joining.HelloSize:
		return m
	}
	return hello{
		Version: version,
		Job:     le.Uint64(b[4:]),
		Rank:    le.Uint32(b[12:]),
		Size:    le.Uint32(b[16:]),
		Params:  [2]uint32{le.Uint32(b[20:]), le.Uint32(b[24:])},
		Nonce:   le.Uint64(b[28:]),
	}
}

// claims reports whether m is from a rank of this job, of any run: its format, name and size agree,
// and the rank exists.
func (id *Identity) claims(m *hello) bool {
	return m.Version == id.Version && m.Job == hash(id.Job) && int(m.Size) == id.Size && m.Rank < m.Size
}

// named reports whether m names this job, whatever its other fields are.
func (id *Identity) named(m *hello) bool { return m.Job == hash(id.Job) }

// otherVersion is the prefix of the refusal of a rank of another version, the same in all versions.
func (id *Identity) otherVersion() string { return id.Program + " wire version " }

// check returns what is wrong with the hello of a process that claims to belong to this job. The
// ranks of a run share the nonce that rank 0 has chosen; another run of a job of the same name has
// a different one. Only rank 0, or in a tree the rank above, accepts a rank without a nonce, and
// not if a launcher has distributed it. A different version is ErrVersion.
func (id *Identity) check(m *hello) error {
	newcomer := m.Nonce == 0 && (id.Rank == 0 || id.tree) && !id.told
	switch {
	case m.Version != id.Version:
		return errclass.With(ErrVersion, fmt.Errorf("%s%d, this rank uses %d: build all ranks from one source", id.otherVersion(), m.Version, id.Version))
	case m.Job != hash(id.Job):
		return fmt.Errorf("not of this job: its name hashes to %x, that of job %q to %x", m.Job, id.Job, hash(id.Job))
	case int(m.Size) != id.Size:
		return fmt.Errorf("job %q has %d ranks according to rank %d and %d according to rank %d: start all ranks with the same %s",
			id.Job, m.Size, m.Rank, id.Size, id.Rank, EnvSize)
	case m.Rank >= m.Size:
		return fmt.Errorf("rank %d of %d asks rank %d: there is no such rank", m.Rank, m.Size, id.Rank)
	case int(m.Rank) != id.Rank && m.Nonce != id.Nonce && !newcomer:
		return fmt.Errorf("rank %d belongs to another run of job %q than rank %d: give every run a name of its own by %s", m.Rank, id.Job, id.Rank, EnvJob)
	}
	return nil
}
