//! GET requests beside a load, for APIs and metrics that are plain HTTP.

use std::error::Error as _;
use std::sync::Arc;

use reqwest::header::AUTHORIZATION;
use reqwest::redirect::Policy;
use rpc::{ClientError, ClientOptions, Endpoint};
use rustls::{ClientConfig, RootCertStore};

/// Asks one server. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Http {
    client: reqwest::Client,
    endpoint: Endpoint,
    limit: usize,
}

impl Http {
    /// A client for the server at this address.
    ///
    /// # Errors
    /// [`ClientError::Setup`] when TLS is needed and cannot be set up.
    pub fn new(endpoint: &Endpoint, options: &ClientOptions) -> Result<Self, ClientError> {
        let setup = |reason: String| ClientError::Setup {
            endpoint: endpoint.to_string(),
            reason,
        };
        let config = tls(endpoint, options).map_err(setup)?;
        let builder = reqwest::Client::builder()
            .timeout(options.timeout)
            .redirect(Policy::none())
            .no_proxy()
            .tls_backend_preconfigured(config);
        Ok(Self {
            client: builder.build().map_err(|error| setup(cause(&error)))?,
            endpoint: endpoint.clone(),
            limit: options.max_answer_bytes.bytes(),
        })
    }

    /// The server that is asked.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// The status and the body of what stands at this path under the endpoint's.
    ///
    /// # Errors
    /// [`ClientError`] when no answer comes, or one that is too long.
    pub async fn get(&self, path: &str) -> Result<(u16, Vec<u8>), ClientError> {
        self.get_at(&format!("{}{path}", self.endpoint.path()))
            .await
    }

    /// The text at the endpoint's own path.
    ///
    /// # Errors
    /// [`ClientError`] when no answer comes, or another one than 200.
    pub async fn text(&self) -> Result<String, ClientError> {
        let path = self.endpoint.path();
        let path = match path.trim_end_matches('/') {
            "" => "/",
            path => path,
        };
        match self.get_at(path).await? {
            (200, body) => Ok(String::from_utf8_lossy(&body).into_owned()),
            (status, _) => Err(ClientError::Unexpected {
                endpoint: self.endpoint.to_string(),
                method: "GET".into(),
                reason: format!("status {status}"),
            }),
        }
    }

    async fn get_at(&self, path: &str) -> Result<(u16, Vec<u8>), ClientError> {
        let endpoint = &self.endpoint;
        let scheme = if endpoint.is_tls() { "https" } else { "http" };
        let url = format!("{scheme}://{}{path}", endpoint.authority());
        let mut request = self.client.get(url);
        if let Some(authorization) = endpoint.authorization() {
            request = request.header(AUTHORIZATION, authorization);
        }
        let mut answer = request.send().await.map_err(|error| self.failed(&error))?;
        let status = answer.status().as_u16();
        let mut body = Vec::new();
        while let Some(chunk) = answer.chunk().await.map_err(|error| self.failed(&error))? {
            if body.len() + chunk.len() > self.limit {
                return Err(ClientError::TooLarge {
                    endpoint: endpoint.to_string(),
                    limit: self.limit,
                });
            }
            body.extend_from_slice(&chunk);
        }
        Ok((status, body))
    }

    fn failed(&self, error: &reqwest::Error) -> ClientError {
        let endpoint = self.endpoint.to_string();
        if error.is_timeout() {
            return ClientError::Timeout { endpoint };
        }
        ClientError::Unreachable {
            endpoint,
            reason: cause(error),
        }
    }
}

/// What TLS trusts: nothing where it is not spoken, so that no certificates are loaded.
fn tls(endpoint: &Endpoint, options: &ClientOptions) -> Result<ClientConfig, String> {
    if endpoint.is_tls() {
        let config = options.trust.client_config();
        return config
            .map(|config| (*config).clone())
            .map_err(|error| error.to_string());
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    Ok(config
        .with_root_certificates(RootCertStore::empty())
        .with_no_client_auth())
}

/// The first cause, which names what the system or the server did.
fn cause(error: &reqwest::Error) -> String {
    let mut cause = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        cause = error.to_string();
        source = error.source();
    }
    cause
}
