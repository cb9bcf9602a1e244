package vrpc

import "fmt"

// AcceptStat says what became of a call that was accepted (RFC 5531 section 9, accept_stat).
// Its values but Success are errors: a procedure returns one to answer with it, and
// errors.Is finds it in what a client's call returns.
type AcceptStat uint32

// The values of accept_stat.
const (
	Success      AcceptStat = 0 // the procedure ran
	ProgUnavail  AcceptStat = 1 // the server does not have the program
	ProgMismatch AcceptStat = 2 // the server has other versions of the program
	ProcUnavail  AcceptStat = 3 // the program does not have the procedure
	GarbageArgs  AcceptStat = 4 // the procedure could not decode its arguments
	SystemErr    AcceptStat = 5 // the procedure failed, for example for want of memory
)

func (s AcceptStat) Error() string { return "vrpc: " + s.String() }

func (s AcceptStat) String() string {
	switch s {
	case Success:
		return "success"
	case ProgUnavail:
		return "the server does not have the program"
	case ProgMismatch:
		return "the server does not have this version of the program"
	case ProcUnavail:
		return "the program does not have the procedure"
	case GarbageArgs:
		return "the server could not decode the arguments"
	case SystemErr:
		return "the procedure failed at the server"
	}
	return fmt.Sprintf("accept_stat %d", uint32(s))
}

// RejectStat says why a call was denied (RFC 5531 section 9, reject_stat). Its values are
// errors, as those of AcceptStat are. AuthError stands for any AuthStat.
type RejectStat uint32

// The values of reject_stat.
const (
	RPCMismatch RejectStat = 0 // the server speaks another version of the RPC protocol
	AuthError   RejectStat = 1 // the server does not believe the caller, or wants more proof
)

func (s RejectStat) Error() string {
	switch s {
	case RPCMismatch:
		return "vrpc: the server does not speak version 2 of the RPC protocol"
	case AuthError:
		return "vrpc: the server refused the caller's authentication"
	}
	return fmt.Sprintf("vrpc: reject_stat %d", uint32(s))
}

// AuthStat says why authentication failed (RFC 5531 section 9, auth_stat). Its values are
// errors, as those of AcceptStat are; each of them is AuthError as well.
type AuthStat uint32

// The values of auth_stat but for those of Kerberos and RPCSEC_GSS (8 to 14). Where the RFC has the failure at the client, the error comes
// from the client's own look at the reply.
const (
	AuthOK           AuthStat = 0
	AuthBadCred      AuthStat = 1 // the credential is malformed
	AuthRejectedCred AuthStat = 2 // the client must begin a new session
	AuthBadVerf      AuthStat = 3 // the verifier is malformed
	AuthRejectedVerf AuthStat = 4 // the verifier has expired or was replayed
	AuthTooWeak      AuthStat = 5 // refused for security: a stronger flavor is wanted
	AuthInvalidResp  AuthStat = 6 // the reply's verifier is wrong (found by the client)
	AuthFailed       AuthStat = 7 // for a reason that is not known (found by the client)
)

var authTexts = [...]string{
	AuthOK:           "success",
	AuthBadCred:      "the credential is malformed",
	AuthRejectedCred: "the credential is rejected: begin a new session",
	AuthBadVerf:      "the verifier is malformed",
	AuthRejectedVerf: "the verifier has expired or was replayed",
	AuthTooWeak:      "the credential is too weak",
	AuthInvalidResp:  "the verifier of the reply is wrong",
	AuthFailed:       "failed for an unknown reason",
	8:                "Kerberos error",
	9:                "the time of the credential has expired",
	10:               "a problem with the ticket file",
	11:               "the authenticator cannot be decoded",
	12:               "wrong network address in the ticket",
	13:               "no credentials for the user",
	14:               "a problem with the security context",
}

func (s AuthStat) Error() string { return "vrpc: authentication: " + s.String() }

func (s AuthStat) String() string {
	if int(s) < len(authTexts) {
		return authTexts[s]
	}
	return fmt.Sprintf("auth_stat %d", uint32(s))
}

// Is reports that every AuthStat is AuthError, too.
func (s AuthStat) Is(target error) bool { return target == AuthError }
