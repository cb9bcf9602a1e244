package code

import "encoding/json"

// ErrorCode says what an asynchronous error is (VIP_ERROR_CODE); package vipl says what each
// code means.
type ErrorCode uint8

// The codes, in VIPL's order (VIPL reference, section 7).
const (
	CodePostDesc ErrorCode = iota
	CodeConnLost
	CodeRecvqEmpty
	CodeVIOverrun
	CodeRDMAWProt
	CodeRDMAWData
	CodeRDMAWAbort
	CodeRDMARProt
	CodeCompProt
	CodeRDMATransport
	CodeCatastrophic
	codeEnd
)

var codeNames = [codeEnd]string{
	"post_desc", "conn_lost", "recvq_empty", "vi_overrun", "rdmaw_prot", "rdmaw_data", "rdmaw_abort",
	"rdmar_prot", "comp_prot", "rdma_transport", "catastrophic",
}

// String returns the code as it appears in logs and metrics.
func (c ErrorCode) String() string {
	if c < codeEnd {
		return codeNames[c]
	}
	return "invalid"
}

// ErrorCodes returns all codes.
func ErrorCodes() []ErrorCode {
	all := make([]ErrorCode, codeEnd)
	for i := range all {
		all[i] = ErrorCode(i)
	}
	return all
}

// ErrorCounts counts asynchronous errors by code.
type ErrorCounts [codeEnd]uint64

// MarshalJSON returns an object with a member for each code that has occurred.
func (c ErrorCounts) MarshalJSON() ([]byte, error) {
	by := map[string]uint64{}
	for code, n := range c {
		if n > 0 {
			by[ErrorCode(code).String()] = n
		}
	}
	return json.Marshal(by)
}

// UnmarshalJSON reads what MarshalJSON writes. Codes that it does not know are left out.
func (c *ErrorCounts) UnmarshalJSON(text []byte) error {
	by := map[string]uint64{}
	err := json.Unmarshal(text, &by)
	for code := range c {
		c[code] = by[ErrorCode(code).String()]
	}
	return err
}
