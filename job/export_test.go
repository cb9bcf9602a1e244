package job

import (
	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/joining"
)

// Space is what ranks tell each other by, for tests.
type Space = space

// SetSpace has all ranks of this process use what of returns for each, until the function
// that it returns is called.
func SetSpace(of func(id *Identity) Space) (restore func()) {
	old := spaceOf
	spaceOf = func(id *Identity) (*launcher, space) { return nil, of(id) }
	return func() { spaceOf = old }
}

// FindPlaceIn is FindPlace for any environment and host.
func FindPlaceIn(env map[string]string, host string) (Place, error) {
	return findPlace(func(name string) string { return env[name] }, func() (string, error) { return host, nil })
}

// Value returns what a rank puts into a space.
func Value(addr ethertype.Addr, params [2]uint32, nonce uint64) string {
	return (&entry{addr, params, nonce}).String()
}

// ParseValue reads what a rank has put.
func ParseValue(text string) (addr ethertype.Addr, params [2]uint32, nonce uint64, err error) {
	e, err := parseEntry(text)
	return e.addr, e.params, e.nonce, err
}

// TakeLauncher reports whether there is a connection with the launcher for the job that
// id is of. It then ends that.
func TakeLauncher(id *Identity) bool {
	l, _ := launched(id)
	if l != nil {
		l.finalize()
	}
	return l != nil
}

// ForgetLaunchers has the environment be read anew.
func ForgetLaunchers() {
	launchers.Lock()
	defer launchers.Unlock()
	launchers.by = nil
}

// NewNonce is newNonce, for tests.
var NewNonce = newNonce

// ErrReported is errReported, for tests.
var ErrReported = errReported

// Ranks is rankList, for tests.
var Ranks = rankList

// SourceBobnet is sourceBobnet, for tests.
const SourceBobnet = sourceBobnet

// SourceSlurm is sourceSlurm, for tests.
const SourceSlurm = sourceSlurm

// SourceOpenMPI is sourceOpenMPI, for tests.
const SourceOpenMPI = sourceOpenMPI

// SourcePALS is sourcePALS, for tests.
const SourcePALS = sourcePALS

// SourceKubernetes is sourceKubernetes, for tests.
const SourceKubernetes = sourceKubernetes

// SourcePMI is sourcePMI, for tests.
const SourcePMI = sourcePMI

// FromEnvironment is fromEnvironment, for tests.
func (c Config) FromEnvironment() (Config, error) { return c.fromEnvironment() }

// Check is check, for tests.
func (c *Config) Check() error { return c.check() }

// SayTwice has m say that two processes claim a rank.
func SayTwice(m *Member, err *DuplicateError) {
	m.t.Lock()
	defer m.t.Unlock()
	m.t.End(err)
}

// Reports returns how many reports m has passed on.
func Reports(m *Member) int {
	m.t.Lock()
	defer m.t.Unlock()
	return len(m.t.reports)
}

// LinkAt has m ask a rank for a link, as if that one listened at an address.
func LinkAt(m *Member, rank int, at ethertype.Addr) {
	m.t.Lock()
	defer m.t.Unlock()
	was := m.t.table[rank].addr
	m.t.table[rank].addr = at
	m.t.link(rank)
	m.t.table[rank].addr = was
}

// Hello is a rank's description of itself, for tests.
type Hello = hello

// Put is put, for tests.
func (m *hello) Put(b []byte) { m.put(b) }

// Hello is describe, for tests.
func (id *Identity) Hello(params [2]uint32) Hello { return id.describe(params) }

// ParseHello is parseHello, for tests.
func (id *Identity) ParseHello(b []byte) Hello { return id.parseHello(b) }

// Check is check, for tests.
func (id *Identity) Check(m *Hello) error { return id.check(m) }

// Claims is claims, for tests.
func (id *Identity) Claims(m *Hello) bool { return id.claims(m) }

// ReportOf returns the report of a rank that ends because of err.
func (id *Identity) ReportOf(err error) joining.Report {
	return (&membership{Identity: *id}).ReportOf(err)
}

// Address is address, for tests.
func (id *Identity) Address(rank int) string { return id.address(rank) }

// CauseOf is causeOf, for tests.
var CauseOf = causeOf
