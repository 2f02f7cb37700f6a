module sign

go 1.22

require github.com/cosmos/ibc-go/v8 v8.8.0

require github.com/cosmos/cosmos-sdk v0.50.9

replace (
	github.com/dgrijalva/jwt-go => github.com/golang-jwt/jwt/v4 v4.4.2
	github.com/syndtr/goleveldb => github.com/syndtr/goleveldb v1.0.1-0.20210819022825-2ae1ddf74ef7
)
